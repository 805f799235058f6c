//! What a gateway serves beside VAM, and how much of it at once.

use super::*;
use futures_util::stream;
use offhook::vam::wire::{ClientStreamMessage, vani_stream_service_client::VaniStreamServiceClient};
use tempfile::TempDir;
use tokio::time::timeout;
use tonic::{
    Code, Request,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

const SERVICES: [&str; 3] = ["vani.v1.VaniActionService", "vani.v1.VaniSessionService", "vani.v1.VaniStreamService"];

async fn engine(folder: &TempDir) -> (Engine, Channel) {
    let agents =
        "providers: { mute: { scripted: { script: [silence] } } }\ncontexts: { mute: { prompt: A, provider: mute } }\n";
    let sessions = ", sessions: { context: mute, hosted: india_only, limit: 1 }";
    let engine = super::engine(folder.path(), sessions, agents).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", engine.grpc_addr().unwrap())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    (engine, channel)
}

/// Who has no token is told as well: whoever watches over an engine has none.
#[test]
fn the_health_of_each_service_is_told() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, channel) = engine(&folder).await;
        let mut health = HealthClient::new(channel);
        for service in SERVICES {
            let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
            assert_eq!(answer.status().as_str_name(), "SERVING", "{service}");
        }
        let nobody = health.check(HealthCheckRequest { service: "vani.v1.Nobody".into() }).await.unwrap_err();
        assert_eq!(nobody.code(), Code::NotFound);
        engine.stop().await;
    });
}

/// With a token, a client finds out what there is and how its messages look.
#[test]
fn the_services_are_told_by_reflection() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, channel) = engine(&folder).await;
        let mut client = ServerReflectionClient::new(channel);
        let asks = |wanted: MessageRequest| {
            let request = ServerReflectionRequest { host: String::new(), message_request: Some(wanted) };
            Request::new(stream::iter([request]))
        };
        let refused = client.server_reflection_info(asks(MessageRequest::ListServices(String::new()))).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
        let mut told = async |wanted: MessageRequest| {
            let mut request = asks(wanted);
            request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
            let mut answers = client.server_reflection_info(request).await.unwrap().into_inner();
            answers.message().await.unwrap().unwrap().message_response.unwrap()
        };
        let MessageResponse::ListServicesResponse(list) = told(MessageRequest::ListServices(String::new())).await
        else {
            panic!("it is a list")
        };
        let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
        assert!(SERVICES.iter().all(|service| names.contains(service)), "{names:?}");
        for service in SERVICES {
            let file = told(MessageRequest::FileContainingSymbol(service.into())).await;
            assert!(matches!(file, MessageResponse::FileDescriptorResponse(_)), "{service}: {file:?}");
        }
        engine.stop().await;
    });
}

/// Of one connection: 64 requests beside the streams of as many sessions as there may be. The next one waits.
#[test]
fn one_connection_has_so_many_streams_at_once() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let (engine, channel) = engine(&folder).await;
        let mut client = VaniStreamServiceClient::new(channel);
        // Each ends after ten seconds without a message.
        let mut silent = Vec::new();
        for _ in 0..65 {
            silent.push(client.agent_stream(stream::pending::<ClientStreamMessage>()).await.unwrap());
        }
        let mut another = Box::pin(client.agent_stream(stream::pending::<ClientStreamMessage>()));
        let at_once = timeout(Duration::from_millis(300), &mut another).await;
        assert!(at_once.is_err(), "65 are open");
        silent.pop();
        timeout(PATIENCE, another).await.expect("a place is free").unwrap();
        engine.stop().await;
    });
}
