//! Deepgram: Aura over HTTP, Flux over a WebSocket.

use super::*;
use axum::{
    Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::SinkExt as _;
use std::sync::Mutex;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::oneshot};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{Request, Response as Upgrade},
    },
};

fn options(url: &str, model: &str) -> Value {
    json!({ "api_key": SECRET, "base_url": url, "model": model, "first_sound_ms": 1_000 })
}

mod aura {
    use super::*;

    /// The query, the key and the body.
    type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

    async fn speak(
        State(asked): State<Asked>,
        RawQuery(query): RawQuery,
        headers: HeaderMap,
        Json(body): Json<Value>,
    ) -> Response {
        let query = query.unwrap();
        let key = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
        asked.lock().unwrap().push((query.clone(), key, body));
        let refused = |status: StatusCode, name: &str| {
            let told = json!({ "err_code": name, "err_msg": format!("{SECRET} is wrong"), "request_id": "1" });
            (status, [(header::RETRY_AFTER, "3")], Json(told)).into_response()
        };
        match query.split(['=', '&']).nth(1).unwrap() {
            "aura-2-locked-en" => refused(StatusCode::UNAUTHORIZED, "INVALID_AUTH"),
            "aura-2-busy-en" => refused(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS"),
            _ => Bytes::from_static(b"abcdefgh").into_response(),
        }
    }

    async fn service() -> (String, Asked) {
        let asked = Asked::default();
        let router = Router::new().route("/v1/speak", post(speak)).with_state(asked.clone());
        (serve(router).await, asked)
    }

    #[tokio::test]
    async fn the_legs_own_format_is_asked_for_and_passes_through() {
        let (url, asked) = service().await;
        for (leg, written) in [
            (Format::ULAW, "encoding=mulaw&sample_rate=8000"),
            (Format::ALAW, "encoding=alaw&sample_rate=8000"),
            (Format::SLIN8, "encoding=linear16&sample_rate=8000"),
            (Format::SLIN16, "encoding=linear16&sample_rate=16000"),
        ] {
            let heard = clause("deepgram_speech", &options(&url, "aura-2-ada-en"), "Good morning.", leg).await;
            assert!(matches!(heard, (Some(format), _, None) if format == leg), "{heard:?}");
            assert_eq!(heard.1, b"abcdefgh");
            let (query, key, body) = asked.lock().unwrap().pop().unwrap();
            assert_eq!(query, format!("model=aura-2-ada-en&{written}&container=none"));
            assert_eq!((&*key, body), ("Token sk-a-secret-key", json!({ "text": "Good morning." })));
        }
        let mut options = options(&url, "aura-2-ada-en");
        options["mip_opt_out"] = true.into();
        build("deepgram_speech", &options).unwrap().voice().speak("Good morning.").await.unwrap();
        let (query, ..) = asked.lock().unwrap().pop().unwrap();
        let wanted = "model=aura-2-ada-en&encoding=linear16&sample_rate=24000&mip_opt_out=true&container=none";
        assert_eq!(query, wanted, "a clip is for legs of every format");
    }

    #[tokio::test]
    async fn a_fault_is_told_by_its_name_and_never_by_its_sentence() {
        let (url, asked) = service().await;
        for (model, status, code) in
            [("aura-2-locked-en", 401, "invalid_auth"), ("aura-2-busy-en", 429, "too_many_requests")]
        {
            let (_, _, end) = clause("deepgram_speech", &options(&url, model), "Hello.", Format::ULAW).await;
            let retry_after = Some(Duration::from_secs(3));
            let expected = Fault::Refused { status, code: Some(code.into()), retry_after };
            assert!(matches!(&end, Some(VoiceError::Remote(fault)) if *fault == expected), "{end:?}");
        }
        asked.lock().unwrap().clear();
        let long = "Good morning. ".repeat(750);
        let (_, _, end) = clause("deepgram_speech", &options(&url, "aura-2-ada-en"), &long, Format::ULAW).await;
        assert!(matches!(end, Some(VoiceError::TooLong(2_000))) && asked.lock().unwrap().is_empty(), "{end:?}");
    }
}

mod flux {
    use super::*;

    type Peer = WebSocketStream<TcpStream>;

    async fn listen() -> (TcpListener, String) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url)
    }

    async fn said(peer: &mut Peer) -> Value {
        loop {
            match peer.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn tell(peer: &mut Peer, message: Value) {
        peer.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Takes one connection, hears what is to be said, and begins to say it.
    async fn begin(listener: &TcpListener) -> (Peer, String) {
        let (socket, _) = listener.accept().await.unwrap();
        let (mut target, mut key) = (String::new(), String::new());
        #[allow(clippy::result_large_err)] // The library's own type.
        let keep = |request: &Request, upgrade: Upgrade| {
            target = request.uri().to_string();
            key = request.headers()["authorization"].to_str().unwrap().to_owned();
            Ok(upgrade)
        };
        let mut peer = accept_hdr_async(socket, keep).await.unwrap();
        assert_eq!(key, "Token sk-a-secret-key");
        tell(&mut peer, json!({ "type": "Connected", "request_id": "1" })).await;
        assert_eq!(said(&mut peer).await, json!({ "type": "Speak", "text": "Good morning." }));
        assert_eq!(said(&mut peer).await, json!({ "type": "Flush" }));
        tell(&mut peer, json!({ "type": "SpeechStarted", "speech_id": "dg_sp_1" })).await;
        (peer, target)
    }

    async fn audio(peer: &mut Peer, bytes: &'static [u8]) {
        peer.send(Message::Binary(Bytes::from_static(bytes))).await.unwrap();
    }

    async fn heard(url: &str, leg: Format) -> (Option<Format>, Vec<u8>, Option<VoiceError>) {
        clause("deepgram_speech", &options(url, "flux-ada-en"), "Good morning.", leg).await
    }

    /// `Flushed` may come before the sound does; the metadata come after all of it.
    #[tokio::test]
    async fn a_clause_is_heard_to_its_end_and_its_connection_is_closed_with_a_word() {
        let (listener, url) = listen().await;
        let (closed, goodbye) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let (mut peer, target) = begin(&listener).await;
            tell(&mut peer, json!({ "type": "Flushed", "speech_id": "dg_sp_1" })).await;
            audio(&mut peer, b"abc").await;
            tell(&mut peer, json!({ "type": "Warning", "code": "SYNTHESIS_RETRYING" })).await;
            audio(&mut peer, b"defgh").await;
            tell(&mut peer, json!({ "type": "SpeechMetadata", "audio_duration_ms": 1 })).await;
            closed.send(said(&mut peer).await).unwrap();
            target
        });
        let (format, bytes, end) = heard(&url, Format::SLIN16).await;
        assert!(end.is_none(), "{end:?}");
        assert_eq!((format, bytes.as_slice()), (Some(Format::SLIN16), &b"abcdefgh"[..]));
        assert_eq!(goodbye.await.unwrap(), json!({ "type": "Close" }));
        assert_eq!(serving.await.unwrap(), "/v2/speak?model=flux-ada-en&encoding=linear16&sample_rate=16000");
    }

    #[tokio::test]
    async fn a_server_that_hangs_up_after_its_flush_has_said_all() {
        let (listener, url) = listen().await;
        let serving = async {
            let (mut peer, _) = begin(&listener).await;
            audio(&mut peer, b"abcd").await;
            tell(&mut peer, json!({ "type": "Flushed", "speech_id": "dg_sp_1" })).await;
            peer.close(None).await.unwrap();
        };
        let ((format, bytes, end), ()) = tokio::join!(heard(&url, Format::ULAW), serving);
        assert!(format == Some(Format::ULAW) && bytes == b"abcd" && end.is_none(), "{end:?}");
    }

    #[tokio::test]
    async fn a_connection_that_ends_in_the_middle_is_a_fault() {
        let (listener, url) = listen().await;
        let serving = async {
            let (mut peer, _) = begin(&listener).await;
            audio(&mut peer, b"abcd").await;
        };
        let ((_, bytes, end), ()) = tokio::join!(heard(&url, Format::ULAW), serving);
        assert!(bytes == b"abcd" && matches!(end, Some(VoiceError::Remote(Fault::Closed(None)))), "{end:?}");
    }

    #[tokio::test]
    async fn a_fault_is_told_by_its_code_and_never_by_its_sentence() {
        for (message, expected) in [
            (
                json!({ "type": "Error", "code": "DATA-0002", "description": SECRET }),
                Fault::Reported { like: Some(400), code: Some("data_0002".into()) },
            ),
            (
                json!({ "type": "Error", "code": "NET-0001", "description": SECRET }),
                Fault::Reported { like: Some(500), code: Some("net_0001".into()) },
            ),
            (
                json!({ "type": "Error", "code": format!("not a code, but {SECRET}") }),
                Fault::Reported { like: Some(400), code: None },
            ),
            (json!("Error"), Fault::Garbage("a message is no JSON object with a type")),
        ] {
            let (listener, url) = listen().await;
            let serving = async {
                let (mut peer, _) = begin(&listener).await;
                tell(&mut peer, message).await;
                peer
            };
            let ((_, _, end), _peer) = tokio::join!(heard(&url, Format::ULAW), serving);
            assert!(matches!(&end, Some(VoiceError::Remote(fault)) if *fault == expected), "{end:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_refuses_or_says_nothing_is_told_so() {
        let (listener, url) = listen().await;
        let refusing = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let refusal = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";
            socket.write_all(refusal).await.unwrap();
            socket
        };
        let ((_, _, end), _socket) = tokio::join!(heard(&url, Format::ULAW), refusing);
        let expected = Fault::Refused { status: 429, code: None, retry_after: Some(Duration::from_secs(3)) };
        assert!(matches!(&end, Some(VoiceError::Remote(fault)) if *fault == expected), "{end:?}");
        let ((_, _, end), _peer) = tokio::join!(heard(&url, Format::ULAW), begin(&listener));
        assert!(matches!(end, Some(VoiceError::TooSlow(limit)) if limit == Duration::from_secs(1)), "{end:?}");
    }

    /// A caller who interrupts pays for nothing more.
    #[tokio::test]
    async fn a_clause_that_nobody_wants_any_more_ends_its_connection() {
        let (listener, url) = listen().await;
        let speaker = build("deepgram_speech", &options(&url, "flux-ada-en")).unwrap();
        let mut sounds = speaker.voice().stream("Good morning.".into(), Format::ULAW);
        let serving = tokio::spawn(async move {
            let (mut peer, _) = begin(&listener).await;
            audio(&mut peer, b"abcd").await;
            while let Some(Ok(_)) = peer.next().await {}
        });
        sounds.next().await.unwrap().unwrap();
        drop(sounds);
        serving.await.unwrap();
    }
}

#[test]
fn options_that_cannot_work_are_told() {
    let wrong = [
        ("base_url", json!("wss://a")),
        ("api_key", json!("")),
        ("model", json!("a&b")),
        ("first_sound_ms", json!(0)),
        ("timeout_ms", json!(0)),
    ];
    told("deepgram_speech", &options("https://api.example.com", "flux-ada-en"), &wrong);
}
