//! Replies that answer nothing that was asked.
//!
//! The library lets a reply with the id `"7"` answer the request 7, since some servers write every id as text. One that writes
//! numbers means something else by a text, and would settle a call with the result of another.

use super::output::Output;
use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use std::borrow::Cow;

/// A connection that passes only replies with ids of the type that its server writes, as the first of them has it.
pub(super) struct ReplyIds<T> {
    inner: T,
    output: Output,
    /// The server writes numbers as text.
    as_text: Option<bool>,
}

impl<T> ReplyIds<T> {
    pub fn new(inner: T, output: Output) -> Self {
        Self { inner, output, as_text: None }
    }

    fn admits(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                None => return true,
            },
            _ => return true,
        };
        // A text that is no number answers nothing anyway.
        let is_text = matches!(id, RequestId::String(text) if text.parse::<i64>().is_ok());
        let as_text = *self.as_text.get_or_insert(is_text);
        if is_text && !as_text {
            // The id is left out: it may be somebody's number.
            self.output.line("reply", b"its id is a text and answers no request");
        }
        as_text || !is_text
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ReplyIds<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            if self.admits(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::transport::async_rw::AsyncRwTransport;

    /// The ids of the replies that are passed on, as JSON.
    async fn passed(ids: &[&str]) -> Vec<String> {
        let reply = |(at, id): (usize, &&str)| match at % 2 {
            0 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"),
            _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-1,\"message\":\"\"}}}}\n"),
        };
        let printed: String = ids.iter().enumerate().map(reply).collect();
        let reader = std::io::Cursor::new(printed.into_bytes());
        let inner = AsyncRwTransport::<RoleClient, _, _>::new(reader, tokio::io::sink());
        let mut replies = ReplyIds::new(inner, Output::new("demo", []));
        let mut told = Vec::new();
        while let Some(message) = replies.receive().await {
            let message = serde_json::to_value(&message).unwrap();
            told.push(message["id"].to_string());
        }
        told
    }

    #[tokio::test]
    async fn a_reply_whose_id_is_a_text_settles_no_call_with_that_number() {
        assert_eq!(passed(&["0", "\"7\"", "\"8\"", "7"]).await, ["0", "7"]);
    }

    #[tokio::test]
    async fn a_server_that_writes_every_id_as_text_is_understood() {
        assert_eq!(passed(&["\"0\"", "\"1\"", "2"]).await, ["\"0\"", "\"1\"", "2"]);
    }
}
