//! Wyoming servers of several manners, on a socket.

use super::*;
use crate::remote::wyoming::{Connection, Event};
use tokio::net::TcpStream;

async fn listen() -> (TcpListener, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = json!({ "address": listener.local_addr().unwrap().to_string(), "first_sound_ms": 1_000 });
    (listener, options)
}

/// Takes one request, and tells these events; the connection stays with the test.
async fn answer(listener: &TcpListener, events: &[Event]) -> (Connection, Event) {
    let (socket, _): (TcpStream, _) = listener.accept().await.unwrap();
    let mut caller = Connection::over(socket);
    let request = caller.next().await.unwrap();
    for event in events {
        caller.send(event).await.unwrap();
    }
    (caller, request)
}

fn start(rate: u32, width: u32, channels: u32) -> Event {
    Event::new("audio-start", json!({ "rate": rate, "width": width, "channels": channels }))
}

fn chunk(bytes: &'static [u8]) -> Event {
    Event::new("audio-chunk", json!({ "rate": 22_050, "width": 2, "channels": 1 })).with(Bytes::from_static(bytes))
}

fn event(kind: &str) -> Event {
    Event::new(kind, json!({}))
}

async fn heard(options: &Value) -> (Option<Format>, Vec<u8>, Option<VoiceError>) {
    clause("wyoming_speech", options, "Good morning.", Format::ULAW).await
}

#[tokio::test]
async fn a_clause_is_heard_in_the_rate_of_the_voice() {
    let (listener, mut options) = listen().await;
    let events = [start(22_050, 2, 1), chunk(b"abc"), event("pong"), chunk(b""), chunk(b"defgh"), event("audio-stop")];
    for (key, expected) in [
        ("", json!({ "text": "Good morning." })),
        ("language", json!({ "text": "Good morning.", "voice": { "language": "x" } })),
        ("voice", json!({ "text": "Good morning.", "voice": { "name": "x", "language": "x" } })),
        ("speaker", json!({ "text": "Good morning.", "voice": { "name": "x", "speaker": "x", "language": "x" } })),
    ] {
        if !key.is_empty() {
            options[key] = "x".into();
        }
        let ((format, bytes, end), (_caller, request)) = tokio::join!(heard(&options), answer(&listener, &events));
        assert!(end.is_none(), "{end:?}");
        assert_eq!((format, bytes.as_slice()), (Some(Format { rate: 22_050, ..Format::SLIN24 }), &b"abcdefgh"[..]));
        assert_eq!((&*request.kind, Value::Object(request.data)), ("synthesize", expected));
    }
    let speaker = build("wyoming_speech", &options).unwrap();
    let (clip, _) = tokio::join!(speaker.voice().speak("Good morning."), answer(&listener, &events));
    assert_eq!(clip.unwrap().length(), Format { rate: 22_050, ..Format::SLIN24 }.duration_of(8));
}

#[tokio::test]
async fn it_is_sent_what_is_written_as_it_is_said_unless_it_is_to_be_as_written() {
    let (listener, mut options) = listen().await;
    let events = [start(22_050, 2, 1), chunk(b"abcd"), event("audio-stop")];
    options["voice"] = "en_US-joe-medium".into();
    let written = "<b>That's</b> $4.50. (laughs)";
    for (normalization, sent) in [(true, "That's 4 dollars and 50 cents."), (false, written)] {
        options["text_normalization"] = normalization.into();
        let clause = clause("wyoming_speech", &options, written, Format::ULAW);
        let ((_, _, end), (_caller, request)) = tokio::join!(clause, answer(&listener, &events));
        assert!(end.is_none(), "{end:?}");
        assert_eq!(request.data["text"], sent);
    }
    let (_, bytes, end) =
        clause("wyoming_speech", &json!({ "address": options["address"] }), "<br/>", Format::ULAW).await;
    assert!(bytes.is_empty() && end.is_none(), "nobody is asked to say nothing: {end:?}");
}

#[tokio::test]
async fn a_server_that_fails_is_told_by_what_it_did() {
    let error = Event::new("error", json!({ "text": "cannot say: Good morning.", "code": "no_voice" }));
    for (events, label, heard_bytes) in [
        (vec![error.clone()], "refused", 0),
        (vec![start(22_050, 2, 1), chunk(b"abcd"), error], "refused", 4),
        (vec![start(22_050, 2, 1), chunk(b"abcd")], "unreachable", 4),
        (vec![event("info")], "unreachable", 0),
        (vec![event("audio-start")], "no_sound", 0),
        (vec![start(22_050, 2, 2)], "no_sound", 0),
        (vec![start(22_050, u32::MAX, 1)], "no_sound", 0),
        (vec![start(11_025, 2, 1)], "no_sound", 0),
        (vec![start(22_050, 2, 1), event("audio-stop")], "no_sound", 0),
    ] {
        let (listener, options) = listen().await;
        // The connection ends with the last event.
        let serving = async { drop(answer(&listener, &events).await) };
        let ((_, bytes, end), ()) = tokio::join!(heard(&options), serving);
        let error = end.expect("a fault");
        assert_eq!((error.label(), bytes.len()), (label, heard_bytes), "{events:?}: {error}");
        assert!(!error.to_string().contains("morning"), "{error}");
    }
    let (listener, options) = listen().await;
    let ((_, _, end), _caller) = tokio::join!(heard(&options), answer(&listener, &[]));
    assert!(matches!(end, Some(VoiceError::TooSlow(limit)) if limit == Duration::from_secs(1)), "{end:?}");
    let (_socket, nobody) = crate::remote::nobody();
    let (_, _, end) = heard(&json!({ "address": nobody.to_string() })).await;
    assert!(matches!(end, Some(VoiceError::Remote(Fault::Unreachable(_)))), "{end:?}");
    let (_, _, end) = clause("wyoming_speech", &options, &"a".repeat(10_000), Format::ULAW).await;
    assert!(matches!(end, Some(VoiceError::TooLong(4_000))), "{end:?}");
}

#[tokio::test]
async fn garbage_is_a_fault() {
    let (listener, options) = listen().await;
    let serving = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        socket
    };
    let ((_, _, end), _socket) = tokio::join!(heard(&options), serving);
    assert!(matches!(end, Some(VoiceError::Remote(Fault::Garbage(_)))), "{end:?}");
}

/// It is the only way to cancel.
#[tokio::test]
async fn a_clause_that_nobody_wants_any_more_closes_its_connection() {
    let (listener, options) = listen().await;
    let speaker = build("wyoming_speech", &options).unwrap();
    let mut sounds = speaker.voice().stream("Good morning.".into(), Format::ULAW);
    let events = [start(22_050, 2, 1), chunk(b"abcd")];
    let (first, (mut caller, _)) = tokio::join!(sounds.next(), answer(&listener, &events));
    first.unwrap().unwrap();
    drop(sounds);
    assert_eq!(caller.next().await, Err(Fault::Closed(None)));
}

#[test]
fn options_that_cannot_work_are_told() {
    let good = json!({ "address": "127.0.0.1:10200", "voice": "en_GB-alba-medium" });
    let wrong = [
        ("address", json!("127.0.0.1")),
        ("address", json!("tcp://127.0.0.1:10200")),
        ("address", json!("127.0.0.1:0")),
        ("voice", json!(" ")),
        ("first_sound_ms", json!(0)),
        ("timeout_ms", json!(0)),
    ];
    told("wyoming_speech", &good, &wrong);
    told("wyoming_speech", &json!({ "address": "piper:10200" }), &[("speaker", json!("2"))]);
}
