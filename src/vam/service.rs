//! `VaniActionService`: action servers register, are listed, and go (V14, V16).

use super::{
    servers::{ActionServers, Busy},
    wire::{
        ActionServerManifest, ActionServerRegistrationResponse, DeregisterActionServerRequest,
        DeregisterActionServerResponse, ListActionServersRequest, ListActionServersResponse,
        vani_action_service_server::VaniActionService,
    },
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct ActionService(pub Arc<ActionServers>);

#[tonic::async_trait]
impl VaniActionService for ActionService {
    async fn register_action_server(
        &self,
        request: Request<ActionServerManifest>,
    ) -> Result<Response<ActionServerRegistrationResponse>, Status> {
        let (servers, manifest) = (Arc::clone(&self.0), request.into_inner());
        // Brought to its end, also when the client does not wait: it may be half done.
        let registered = tokio::spawn(async move { servers.register(manifest).await }).await;
        match registered {
            Ok(Ok(answer)) => Ok(Response::new(answer)),
            Ok(Err(Busy)) => Err(Status::resource_exhausted(
                "as many registrations are under way as the gateway takes at once; try again in a minute",
            )),
            Err(_) => Err(Status::internal("the registration failed; the gateway's log says why")),
        }
    }

    async fn deregister_action_server(
        &self,
        request: Request<DeregisterActionServerRequest>,
    ) -> Result<Response<DeregisterActionServerResponse>, Status> {
        let (servers, server_id) = (Arc::clone(&self.0), request.into_inner().server_id);
        let gone = tokio::spawn(async move { servers.deregister(&server_id).await }).await;
        let answer = match gone {
            Ok(Ok(true)) => DeregisterActionServerResponse { success: true, message: String::new() },
            Ok(Ok(false)) => {
                DeregisterActionServerResponse { success: false, message: "no server of this id is registered".into() }
            }
            Ok(Err(why)) => {
                tracing::warn!(why, "a deregistration could not be kept");
                return Err(Status::internal("the gateway could not keep the change"));
            }
            Err(_) => return Err(Status::internal("the deregistration failed; the gateway's log says why")),
        };
        Ok(Response::new(answer))
    }

    async fn list_action_servers(
        &self,
        request: Request<ListActionServersRequest>,
    ) -> Result<Response<ListActionServersResponse>, Status> {
        let servers = self.0.list(&request.into_inner().tool_name_filter);
        Ok(Response::new(ListActionServersResponse { servers }))
    }
}
