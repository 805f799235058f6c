//! Connections without a token, beside those of clients.

use super::{
    holding::{Held, TOKEN},
    *,
};
use crate::vam::wire::{
    SessionInitRequest, SessionInitResponse, SessionStatus, vani_session_service_client::VaniSessionServiceClient,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use uuid::Uuid;

async fn connected(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A connection on which only the health was asked.
async fn stranger(address: SocketAddr) -> Channel {
    let channel = connected(address).await;
    HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    channel
}

async fn begin(channel: &Channel, token: &str) -> SessionStatus {
    let session_id = Uuid::new_v4().to_string();
    let request = SessionInitRequest { session_id, auth_token: token.into(), ..Default::default() };
    let answer: SessionInitResponse =
        VaniSessionServiceClient::new(channel.clone()).init_session(request).await.unwrap().into_inner();
    answer.status()
}

#[tokio::test]
async fn connections_without_a_token_leave_their_places_to_clients() {
    let held = Held::new(", limits: { connections: 2 }", Vec::new());
    let (address, _serving) = held.served().await;
    let _strangers = [stranger(address).await, stranger(address).await];
    let client = connected(address).await;
    assert_eq!(begin(&client, TOKEN).await, SessionStatus::Ok);
    assert_eq!(held.counters.shown_out.get(), 1);
    // Others come and go beside it: it has shown a token.
    for shown_out in 2..5 {
        let _another = stranger(address).await;
        assert_eq!(held.counters.shown_out.get(), shown_out);
    }
    assert_eq!(begin(&client, TOKEN).await, SessionStatus::RateLimited, "its session is open");
    assert_eq!(held.counters.shown_out.get(), 4, "it did not have to connect again");
}

#[tokio::test]
async fn a_request_without_a_token_keeps_a_connection_for_a_while_only() {
    let held = Held::new("", Vec::new());
    let (address, _serving) = held.served().await;
    let (_stranger, client) = (stranger(address).await, connected(address).await);
    assert_eq!(begin(&client, TOKEN).await, SessionStatus::Ok);
    tokio::time::pause();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(24) {
        let gone = held.counters.unasked.get();
        match began.elapsed().as_secs() {
            ..=15 => assert_eq!(gone, 0, "it asked a moment ago"),
            22.. => assert_eq!(gone, 1, "the stranger has gone, and the client stays"),
            // The real time that went by before counts as well.
            _ => {}
        }
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn guesses_at_a_token_are_slowed_down_but_not_those_who_have_shown_one() {
    let held = Held::new("", Vec::new());
    let (address, _serving) = held.served().await;
    let (client, guesser) = (connected(address).await, connected(address).await);
    assert_eq!(begin(&client, TOKEN).await, SessionStatus::Ok);
    let mut looked_at = 0;
    while begin(&guesser, "a-token-that-is-wrong").await == SessionStatus::AuthFailed {
        looked_at += 1;
        assert!(looked_at < 60, "more guesses are looked at than should be");
    }
    assert!(looked_at >= 30, "{looked_at} guesses were looked at");
    assert_eq!(held.counters.guesses_refused.get(), 1);
    // It does not learn that a guess is right.
    assert_eq!(begin(&guesser, TOKEN).await, SessionStatus::RateLimited);
    assert_eq!(held.counters.guesses_refused.get(), 2);
    assert_eq!(begin(&client, TOKEN).await, SessionStatus::RateLimited, "one session is open");
    assert_eq!(held.counters.guesses_refused.get(), 2, "its token was looked at");
}
