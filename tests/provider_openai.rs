//! The OpenAI Realtime provider over real sockets, against a server that misbehaves in every way
//! providers have been seen to.

use crate::kit;

use bytes::Bytes;
use kit::{
    audio::encoded_tone,
    openai_server::{Behaviour, OpenAiServer, Opening, Setup},
    stage::Stage,
    virtual_time::run,
};
use offhook::{
    audio::{Format, rms_dbfs},
    call::{AgentCommand, AgentEvent, AgentLoss, Noise, Reply, ResponseStatus, Speaker},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

async fn stage_of(behaviour: Behaviour, leg: Format) -> (OpenAiServer, Stage) {
    let server = OpenAiServer::start(behaviour).await;
    let stage = Stage::with("openai_realtime", &server.options(), leg);
    (server, stage)
}

fn greet() -> AgentCommand {
    AgentCommand::Greet { text: Some("Hello.".into()) }
}

#[test]
fn a_greeting_is_heard_whole_with_transcript_and_usage() {
    run(|| async {
        for (leg, hertz) in
            [(Format::ULAW, 440.0), (Format::ALAW, 440.0), (Format::SLIN8, 440.0), (Format::SLIN16, 440.0)]
        {
            let (server, mut stage) = stage_of(Behaviour { hertz, ..Behaviour::default() }, leg).await;
            stage.is_ready().await;
            stage.tell(greet()).await;
            let (mut audio, mut others) = (Vec::new(), Vec::new());
            loop {
                match stage.next().await {
                    AgentEvent::Audio { audio: piece, .. } => audio.extend_from_slice(&piece),
                    event @ AgentEvent::ResponseDone { .. } => {
                        others.push(event);
                        break;
                    }
                    event => others.push(event),
                }
            }
            let length = leg.duration_of(audio.len()).as_millis();
            assert!((1_000..=1_040).contains(&length), "{leg}: {length} ms");
            assert!(matches!(others[0], AgentEvent::ResponseStarted { .. }), "{others:?}");
            assert!(matches!(&others[1], AgentEvent::Transcript { speaker: Speaker::Agent, .. }), "{others:?}");
            assert!(matches!(&others[2], AgentEvent::Usage(usage) if usage.output_audio_tokens == 7), "{others:?}");
            assert!(matches!(others[3], AgentEvent::ResponseDone { status: ResponseStatus::Completed, .. }));
            assert_eq!(server.violations(), Vec::<String>::new(), "{leg}");
            assert_eq!(server.requests(), ["/v1/realtime?model=gpt-realtime-2.1 Bearer sk-test"]);
        }
    });
}

#[test]
fn caller_audio_reaches_the_server_untouched_in_g711_and_as_24_khz_otherwise() {
    run(|| async {
        let (server, mut stage) = stage_of(Behaviour::default(), Format::ULAW).await;
        stage.is_ready().await;
        let frames: Vec<u8> = (0..=255).cycle().take(160 * 50).collect();
        for frame in frames.chunks(160) {
            stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
        }
        server.wait_until("the caller's audio", |server| server.caller_audio().len() >= frames.len()).await;
        assert_eq!(server.caller_audio(), frames);

        let (server, mut stage) = stage_of(Behaviour::default(), Format::SLIN16).await;
        stage.is_ready().await;
        for frame in encoded_tone(440.0, Duration::from_secs(1), Format::SLIN16).chunks(640) {
            stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
        }
        server.wait_until("a second of audio", |server| server.caller_audio().len() >= 48_000).await;
        let samples: Vec<i16> =
            server.caller_audio().chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        assert!((rms_dbfs(&samples) - -15.3).abs() < 1.0, "{}", rms_dbfs(&samples));
        assert_eq!(server.violations(), Vec::<String>::new());
    });
}

#[test]
fn what_the_caller_says_before_the_session_stands_arrives_after_it_in_order() {
    run(|| async {
        let server = OpenAiServer::start(Behaviour::default()).await;
        let mut stage = Stage::with("openai_realtime", &server.options(), Format::ULAW);
        let frames: Vec<u8> = (0..160 * 60).map(|i| (i / 160) as u8).collect();
        for frame in frames.chunks(160) {
            stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
        }
        stage.is_ready().await;
        server.wait_until("the pre-roll", |server| server.caller_audio().len() >= frames.len()).await;
        assert_eq!(server.caller_audio(), frames);
    });
}

#[test]
fn each_way_of_not_standing_up_ends_in_one_loss_after_bounded_attempts() {
    run(|| async {
        let opening = |opening| Behaviour { opening, ..Behaviour::default() };
        let setup = |setup| Behaviour { setup, ..Behaviour::default() };
        for (behaviour, loss, attempts) in [
            (opening(Opening::Refuse(401)), AgentLoss::Unauthorized, 1),
            (opening(Opening::Refuse(403)), AgentLoss::Unauthorized, 1),
            (opening(Opening::Refuse(429)), AgentLoss::Throttled, 3),
            (opening(Opening::Refuse(500)), AgentLoss::Unreachable, 3),
            (opening(Opening::CloseAtOnce(1011)), AgentLoss::Handshake, 3),
            (opening(Opening::Silent), AgentLoss::Handshake, 3),
            (opening(Opening::Garbage), AgentLoss::Protocol, 3),
            (setup(Setup::WrongFormats), AgentLoss::Handshake, 3),
            (setup(Setup::Refuse("unknown_parameter")), AgentLoss::Handshake, 3),
            (setup(Setup::Refuse("insufficient_quota")), AgentLoss::Quota, 1),
            (setup(Setup::Refuse("invalid_api_key")), AgentLoss::Unauthorized, 1),
            (setup(Setup::Silent), AgentLoss::Handshake, 3),
        ] {
            let what = format!("{:?} {:?}", behaviour.opening, behaviour.setup);
            let (server, mut stage) = stage_of(behaviour.clone(), Format::ULAW).await;
            let mut events = stage.rest().await;
            assert_eq!(events.pop(), Some(AgentEvent::Lost(loss)), "{what}");
            // Just before it, the status of a refusal.
            if let Opening::Refuse(status) = behaviour.opening {
                assert_eq!(events.pop(), Some(AgentEvent::Refused { status }), "{what}");
            }
            assert!(events.iter().all(|event| *event == AgentEvent::Noise(Noise::Malformed)), "{what}: {events:?}");
            assert_eq!(server.connections(), attempts, "{what}");
            stage.task.await.expect("no panic");
            server.wait_until("every connection to end", |server| server.open() == 0).await;
        }
    });
}

#[test]
fn a_port_where_nobody_listens_is_unreachable() {
    run(|| async {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
        let options = json!({ "api_key": "sk-test", "base_url": format!("ws://{unused}") });
        assert_eq!(
            Stage::with("openai_realtime", &options, Format::ULAW).rest().await,
            [AgentEvent::Lost(AgentLoss::Unreachable)]
        );
    });
}

#[test]
fn a_loss_in_mid_call_is_final_whether_closed_or_dropped() {
    run(|| async {
        for fault in [OpenAiServer::drop_connections, |server: &OpenAiServer| server.close(1011)] {
            let (server, mut stage) = stage_of(Behaviour::default(), Format::ULAW).await;
            stage.is_ready().await;
            fault(&server);
            assert_eq!(stage.rest().await, [AgentEvent::Lost(AgentLoss::Closed)]);
            assert_eq!(server.connections(), 1);
        }
    });
}

#[test]
fn an_expired_session_says_so() {
    run(|| async {
        let (server, mut stage) = stage_of(Behaviour::default(), Format::ULAW).await;
        stage.is_ready().await;
        server
            .send(&json!({ "type": "error", "error": { "type": "invalid_request_error", "code": "session_expired" } }));
        assert_eq!(stage.rest().await, [AgentEvent::Lost(AgentLoss::Expired)]);
    });
}

#[test]
fn unknown_messages_binary_json_and_a_little_garbage_do_not_end_a_session() {
    run(|| async {
        let (server, mut stage) = stage_of(Behaviour::default(), Format::ULAW).await;
        stage.is_ready().await;
        server.send(&json!({ "type": "response.hologram.delta", "delta": 1 }));
        assert_eq!(stage.next().await, AgentEvent::Noise(Noise::UnknownMessage));
        server.send_text("{\"type\":");
        assert_eq!(stage.next().await, AgentEvent::Noise(Noise::Malformed));
        server.send_binary(br#"{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":0}"#);
        assert_eq!(stage.next().await, AgentEvent::CallerSpeechStarted { utterance: Some("i".into()) });
        // Two megabytes in one message: beyond what some libraries allow.
        server.send_text(&format!(r#"{{"type":"rate_limits.updated","padding":"{}"}}"#, "x".repeat(2 << 20)));
        server.send(&json!({ "type": "input_audio_buffer.speech_stopped", "item_id": "i", "audio_end_ms": 0 }));
        assert_eq!(stage.next().await, AgentEvent::CallerSpeechStopped);
    });
}

#[test]
fn a_minute_of_audio_ten_times_faster_than_real_time_loses_nothing() {
    run(|| async {
        let answer = Duration::from_secs(60);
        let (server, mut stage) =
            stage_of(Behaviour { answer, pace: Some(10.0), ..Behaviour::default() }, Format::ULAW).await;
        stage.is_ready().await;
        let begun = Instant::now();
        stage.tell(greet()).await;
        let mut audio = Vec::new();
        loop {
            match stage.next().await {
                AgentEvent::Audio { audio: piece, .. } => audio.extend_from_slice(&piece),
                AgentEvent::ResponseDone { .. } => break,
                _ => {}
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(9), "took {:?}", begun.elapsed());
        assert!(audio[..] == encoded_tone(440.0, answer, Format::ULAW)[..], "{} bytes, and not the same", audio.len());
        drop(server);
    });
}

#[test]
fn an_interruption_truncates_to_what_was_heard_and_late_audio_keeps_its_response_id() {
    run(|| async {
        let behaviour = Behaviour {
            answer: Duration::from_secs(20),
            pace: Some(10.0),
            late_deltas: 3,
            detects_speech: true,
            ..Behaviour::default()
        };
        let (server, mut stage) = stage_of(behaviour, Format::ULAW).await;
        stage.is_ready().await;
        stage.tell(greet()).await;
        let (response, item) = loop {
            if let AgentEvent::Audio { response, item, .. } = stage.next().await {
                break (response, item);
            }
        };
        for frame in encoded_tone(300.0, Duration::from_millis(200), Format::ULAW).chunks(160) {
            stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
        }
        assert!(matches!(stage.next_but_audio().await, AgentEvent::CallerSpeechStarted { .. }));
        let heard = Duration::from_millis(20);
        stage.tell(AgentCommand::Interrupt { response: response.clone(), item, heard, cancel: false }).await;
        let truncate = &server.wait_for("conversation.item.truncate", 1).await[0];
        assert_eq!(truncate["audio_end_ms"], 20);
        loop {
            match stage.next().await {
                AgentEvent::ResponseDone { status, .. } => break assert_eq!(status, ResponseStatus::Cancelled),
                AgentEvent::Audio { .. } | AgentEvent::Usage(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let AgentEvent::Audio { response: late, .. } = stage.next().await else { panic!("late audio is reported") };
        assert_eq!(late, response);
        assert_eq!(server.received_of("response.cancel"), Vec::<Value>::new(), "the server had cancelled by itself");
        assert_eq!(server.violations(), Vec::<String>::new());
    });
}

#[test]
fn a_tool_call_is_answered_and_one_response_is_asked_for_once_the_floor_is_free() {
    run(|| async {
        let calls = [("transfer".to_owned(), r#"{"to":"sales"}"#.to_owned())].into();
        let (server, mut stage) = stage_of(Behaviour { calls, ..Behaviour::default() }, Format::ULAW).await;
        stage.is_ready().await;
        server.respond();
        assert!(matches!(stage.next().await, AgentEvent::ResponseStarted { .. }));
        let AgentEvent::ToolCall(call) = stage.next().await else { panic!("a call comes first") };
        assert_eq!((call.name.as_str(), call.arguments.as_str()), ("transfer", r#"{"to":"sales"}"#));
        assert!(matches!(stage.next().await, AgentEvent::Usage(_)));
        assert!(matches!(stage.next().await, AgentEvent::ResponseDone { .. }));
        let output = r#"{"ok":true}"#.to_owned();
        stage.tell(AgentCommand::ToolResult { call_id: call.id.clone(), output, reply: Reply::Wanted }).await;
        server.wait_for("response.create", 1).await;
        let item = &server.received_of("conversation.item.create")[0]["item"];
        assert_eq!(*item, json!({ "type": "function_call_output", "call_id": call.id, "output": "{\"ok\":true}" }));
        assert_eq!(server.violations(), Vec::<String>::new());
    });
}

/// G answer 12: what is to be said is said and no more; what is told may be acted upon.
#[test]
fn an_agent_calls_tools_when_it_is_told_something_and_not_when_it_is_told_what_to_say() {
    run(|| async {
        let calls = [("book".to_owned(), "{}".to_owned())].into();
        let (server, mut stage) = stage_of(Behaviour { calls, ..Behaviour::default() }, Format::ULAW).await;
        stage.is_ready().await;
        let text = "The caller said yes by pressing a key.".to_owned();
        let mut seen = Vec::new();
        for command in [AgentCommand::Say { text: text.clone() }, AgentCommand::Tell { text, reply: Reply::Wanted }] {
            stage.tell(command).await;
            let mut called = false;
            loop {
                match stage.next_but_audio().await {
                    AgentEvent::ToolCall(_) => called = true,
                    AgentEvent::ResponseDone { .. } => break seen.push(called),
                    _ => {}
                }
            }
        }
        assert_eq!(seen, [false, true]);
        assert_eq!(server.violations(), Vec::<String>::new());
    });
}

#[test]
fn when_the_call_ends_the_socket_is_closed_politely_and_soon() {
    run(|| async {
        let (server, mut stage) = stage_of(Behaviour::default(), Format::ULAW).await;
        stage.is_ready().await;
        let begun = Instant::now();
        drop(stage.commands);
        stage.task.await.expect("no panic");
        assert!(begun.elapsed() < Duration::from_millis(900), "the server's goodbye was awaited in vain");
        server.wait_until("the session to end", |server| server.open() == 0).await;
    });
}
