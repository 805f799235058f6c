//! A bridge of three, as a client of ARI makes it.

use crate::kit::{
    asterisk::{ARI_USER, Options},
    audio::tone,
    exchange::{Exchange, ExchangePhone},
};
use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;
use tokio_tungstenite::{connect_async, tungstenite::Message};

const PITCHES: [f64; 3] = [500.0, 900.0, 1_500.0];

#[tokio::test(start_paused = true)]
async fn each_of_three_hears_the_two_others_and_not_itself() {
    // Only the first in a test program can succeed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dialplan = "[lab-callers](+)\nexten => meet,1,Answer()\n same => n,Stasis(meeting)\n same => n,Hangup()\n";
    let exchange = Exchange::start(&Options { dialplan: dialplan.into(), ..Options::default() }).await;
    let login = format!("api_key={ARI_USER}:{}", exchange.ari_password());
    let events = format!("ws://127.0.0.1:{}/ari/events?app=meeting&{login}", exchange.http_port());
    let (mut events, _) = connect_async(events).await.expect("the events socket");
    let client = reqwest::Client::builder().tls_certs_only([]).build().expect("a plain client");
    let ask = async |method: Method, path: &str, body: Value| {
        let request = client.request(method, format!("{}/ari/{path}?{login}", exchange.ari_url())).json(&body);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(ask(Method::POST, "bridges/three", json!({})).await, 200);
    assert_eq!(ask(Method::POST, "bridges/three", json!({})).await, 409);
    let mut phones = Vec::new();
    for pitch in PITCHES {
        let says = tone(pitch, Duration::from_secs(30));
        phones.push(ExchangePhone::call_as(exchange.sip_port(), "meet", says, "", "1").await);
        let event = loop {
            let Some(Ok(Message::Text(event))) = events.next().await else { panic!("an event") };
            let event: Value = serde_json::from_str(&event).expect("JSON");
            if event["type"] == "StasisStart" {
                break event;
            }
        };
        let joins = json!({ "channel": event["channel"]["id"] });
        assert_eq!(ask(Method::POST, "bridges/three/addChannel", joins).await, 204);
    }
    sleep(Duration::from_secs(2)).await;
    for (phone, own) in phones.iter().zip(PITCHES) {
        let heard = phone.heard();
        let last = heard.part(heard.length() - Duration::from_secs(1)..heard.length());
        // Two of one loudness share the power.
        let share = |pitch| last.shares_of(pitch).iter().sum::<f64>() / 50.0;
        for pitch in PITCHES {
            let share = share(pitch);
            let expected = if pitch == own { 0.0..0.05 } else { 0.4..0.6 };
            assert!(expected.contains(&share), "{own} Hz hears {share} of {pitch} Hz");
        }
    }
    // The two that are left hear each other.
    phones[0].hang_up().await;
    sleep(Duration::from_secs(1)).await;
    let heard = phones[1].heard();
    assert!(heard.part(heard.length() - Duration::from_millis(500)..heard.length()).has_pitch(PITCHES[2]));
}
