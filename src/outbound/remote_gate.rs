//! A contract gate somewhere else, asked over HTTP before a tool runs. It fails closed: no answer in
//! time, another status than 200, or an answer that is not understood is a refusal.

#[cfg(any(test, fuzzing))]
use crate::gate::{AuthState, Category, RiskDomain, Route};
use crate::gate::{Decision, Event};
use crate::remote::http;
use reqwest::{Client, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::time::Duration;

/// A decision is a few kilobytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// One configured gate.
pub struct RemoteGate {
    client: Client,
    url: String,
    token: Option<SecretString>,
    timeout: Duration,
}

impl RemoteGate {
    /// # Errors
    /// When no TLS client can be made on this machine.
    pub fn new(url: String, token: Option<SecretString>, timeout: Duration) -> reqwest::Result<Self> {
        let client = http::builder().redirect(redirect::Policy::none()).no_proxy().timeout(timeout).build()?;
        Ok(Self { client, url, token, timeout })
    }

    /// What the other gate says of this call.
    pub async fn decide(&self, event: &Event) -> Decision {
        match tokio::time::timeout(self.timeout, self.ask(event)).await {
            Ok(Ok(answer)) => Decision::of_remote(event, &answer),
            Ok(Err(why)) => Decision::unavailable(event, why),
            Err(_) => Decision::unavailable(event, "The remote gate did not answer in time."),
        }
    }

    async fn ask(&self, event: &Event) -> Result<Value, &'static str> {
        let mut request = self.client.post(&self.url).json(&event.to_json());
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let mut answer = request.send().await.map_err(|_| "The remote gate could not be reached.")?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err("The remote gate answered with another status than 200.");
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|_| "The remote gate's answer broke off.")? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err("The remote gate's answer is too long.");
            }
            body.extend_from_slice(&chunk);
        }
        read(&body)
    }
}

fn read(body: &[u8]) -> Result<Value, &'static str> {
    serde_json::from_slice(body).map_err(|_| "The remote gate did not answer with JSON.")
}

/// What a gate is asked about in tests.
#[cfg(any(test, fuzzing))]
fn look_up() -> Event {
    Event {
        tool_name: "look_up".into(),
        category: Category::PublicRead,
        state: AuthState::None,
        evidence: Vec::new(),
        domain: RiskDomain::PublicInformation,
        arguments: serde_json::Map::new(),
        recommended: Route::Accept,
        request_id: None,
    }
}

/// Any answer of another gate: a tool runs only on a yes that says so in both places and names no blocker.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let event = look_up();
    let decision = match read(data) {
        Ok(answer) => {
            let decision = Decision::of_remote(&event, &answer);
            assert!(!decision.executes() || answer["gate_decision"] == "pass", "{answer}");
            decision
        }
        Err(why) => {
            let decision = Decision::unavailable(&event, why);
            assert!(!decision.executes());
            decision
        }
    };
    assert!(!decision.executes() || (decision.route() == Route::Accept && decision.hard_blockers().is_empty()));
    let told = decision.to_json().to_string().len();
    assert!(told <= (16 << 10) + 16 * data.len(), "{told} bytes are told of {}", data.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Json, Router, http::StatusCode, routing::post};
    use serde_json::json;

    async fn gate(answer: impl Fn() -> (StatusCode, Value) + Clone + Send + Sync + 'static) -> RemoteGate {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let router = Router::new().route(
            "/",
            post(async move || {
                let (status, answer) = answer();
                (status, Json(answer))
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        RemoteGate::new(url, Some("token".to_owned().into()), Duration::from_secs(5)).unwrap()
    }

    /// G answer 10: an answer of the public check's shape is understood.
    #[tokio::test]
    async fn another_offhook_gate_is_understood() {
        let own = crate::gate::Gate::default();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let answer = own.decide(&look_up(), now).to_json();
        let remote = gate(move || (StatusCode::OK, answer.clone())).await;
        assert!(remote.decide(&look_up()).await.executes());
    }

    /// G10, G answer 10: status, shape, route and the absence of blockers have to agree; nobody there is a no.
    #[tokio::test]
    async fn whatever_is_no_clear_yes_is_a_refusal() {
        for (status, answer) in [
            (StatusCode::INTERNAL_SERVER_ERROR, json!({ "route": "accept", "gate_decision": "pass" })),
            (StatusCode::OK, json!({ "route": "perhaps" })),
            (StatusCode::OK, json!({ "route": "accept" })),
            (StatusCode::OK, json!([])),
        ] {
            let remote = gate(move || (status, answer.clone())).await;
            let decision = remote.decide(&look_up()).await;
            assert_eq!((decision.route(), decision.executes()), (Route::Refuse, false));
        }
        let nobody = RemoteGate::new("http://127.0.0.1:1/".into(), None, Duration::from_secs(5)).unwrap();
        assert_eq!(nobody.decide(&look_up()).await.route(), Route::Refuse);
    }
}
