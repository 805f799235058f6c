//! What a server may ask of offhook: next to nothing.
#![expect(deprecated, reason = "servers in the field use what the newest revision of the protocol deprecates")]

use super::output::Output;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    },
    service::{NotificationContext, RequestContext},
};
use std::sync::Arc;
use tokio::sync::Notify;

/// The client's half of the protocol: offhook has neither a model nor files nor a person to offer to a server.
pub(super) struct Client {
    pub changed: Arc<Notify>,
    pub output: Output,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("offhook", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let text = params.data.as_str().map_or_else(|| params.data.to_string(), str::to_owned);
        self.output.line("message", text.as_bytes());
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(unknown("sampling/createMessage"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(unknown("roots/list"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(unknown("elicitation/create"))
    }
}

fn unknown(method: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}
