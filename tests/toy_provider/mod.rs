//! The provider of `docs/adding-a-provider.md`, at work: what the page promises is built and run here. A whole call with it is
//! among the tests of the engine.

mod toy;
mod vendor;

use crate::kit::virtual_time;
use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, ResponseStatus, Speaker},
    config::Services,
    facts::CallId,
    provider::{AgentSetup, Among, ProviderCounters, SessionPolicy, run},
    remote::wards::Wards,
};
use serde_json::json;
use std::sync::Arc;
use tokio::{net::TcpListener, sync::mpsc};

#[test]
fn the_toy_speaks_and_hears_as_any_provider_does() {
    virtual_time::run(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = json!({ "base_url": format!("ws://{}", listener.local_addr().unwrap()) });
        let serving = tokio::spawn(vendor::serves(listener));
        let among = Among { services: &Services::default(), wards: &Wards::default() };
        let provider = (toy::KIND.build)(&options, &among).unwrap_or_else(|problems| panic!("{problems:?}"));
        let (commands, to_session) = mpsc::channel(8);
        let (from_session, mut events) = mpsc::channel(8);
        let counters = Arc::new(ProviderCounters::new(&prometheus::Registry::new()).unwrap());
        let setup = AgentSetup { instructions: "Be brief.".into(), ..AgentSetup::new(CallId::random(), Format::ULAW) };
        let session = tokio::spawn(run(provider, setup, to_session, from_session, SessionPolicy::default(), counters));
        assert_eq!(events.recv().await, Some(AgentEvent::Ready));
        commands.send(AgentCommand::Greet { text: Some("Hello.".into()) }).await.unwrap();
        assert_eq!(events.recv().await, Some(AgentEvent::ResponseStarted { response: "one".into() }));
        let Some(AgentEvent::Audio { audio, .. }) = events.recv().await else { panic!("it speaks") };
        assert_eq!(audio.len(), 320);
        let said = AgentEvent::Transcript { speaker: Speaker::Agent, text: "Hello.".into(), utterance: None };
        assert_eq!(events.recv().await, Some(said));
        let done = AgentEvent::ResponseDone { response: "one".into(), status: ResponseStatus::Completed };
        assert_eq!(events.recv().await, Some(done));
        commands.send(AgentCommand::Audio(Bytes::from_static(&[9; 160]))).await.unwrap();
        let heard = AgentEvent::Transcript { speaker: Speaker::Caller, text: "160 bytes".into(), utterance: None };
        assert_eq!(events.recv().await, Some(heard));
        assert_eq!(events.recv().await, Some(AgentEvent::CallerSpeechStopped));
        drop(commands);
        session.await.unwrap();
        serving.await.unwrap();
    });
}

#[test]
fn its_mistakes_are_told_with_a_place() {
    let problems = (toy::KIND.check)(&json!({ "base_url": "http://toy" }));
    assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), ["base_url"]);
}

#[test]
fn a_provider_takes_fewer_than_150_lines() {
    assert!(include_str!("toy.rs").lines().count() < 150);
}
