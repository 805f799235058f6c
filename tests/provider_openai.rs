//! The OpenAI Realtime provider over real sockets: its own protocol, beside what `providers/table.rs` shows of every provider.

use crate::{
    kit::{
        audio::encoded_tone,
        stage::Stage,
        vendor::{Call, Message, OpenAi, Opening, Order, Scenario, Vendor, hertz},
        virtual_time::run,
    },
    providers::sessions::spoken,
};
use bytes::Bytes;
use offhook::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, Reply, ResponseStatus, Speaker},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

async fn stage_of(scenario: Scenario) -> (Vendor, Stage) {
    let vendor = Vendor::start::<OpenAi>(scenario).await;
    let stage = Stage::with("openai_realtime", vendor.options(), Format::ULAW);
    (vendor, stage)
}

async fn ready(scenario: Scenario) -> (Vendor, Stage) {
    let (vendor, mut stage) = stage_of(scenario).await;
    stage.is_ready().await;
    (vendor, stage)
}

fn greet() -> AgentCommand {
    AgentCommand::Greet { text: Some("Hello.".into()) }
}

async fn tell_audio(stage: &Stage, audio: &[u8]) {
    for frame in audio.chunks(160) {
        stage.tell(AgentCommand::Audio(Bytes::copy_from_slice(frame))).await;
    }
}

#[test]
fn a_model_is_asked_for_by_its_name_with_the_key_and_tells_words_and_usage_before_the_end_of_its_answer() {
    run(|| async {
        let (vendor, mut stage) = ready(Scenario::default()).await;
        stage.tell(greet()).await;
        assert!(matches!(stage.next().await, AgentEvent::ResponseStarted { .. }));
        assert!(matches!(stage.next_but_audio().await, AgentEvent::Transcript { speaker: Speaker::Agent, .. }));
        assert!(matches!(stage.next().await, AgentEvent::Usage(usage) if usage.output_audio_tokens == 7));
        assert!(matches!(stage.next().await, AgentEvent::ResponseDone { status: ResponseStatus::Completed, .. }));
        let head = vendor.of(1, |seen| seen.head.clone());
        assert!(head.starts_with("GET /v1/realtime?model=gpt-realtime-2.1 HTTP/1.1\r\n"), "{head}");
        assert!(head.lines().any(|line| line.eq_ignore_ascii_case("authorization: Bearer key-of-the-test")), "{head}");
        vendor.is_content();
    });
}

#[test]
fn what_the_caller_says_before_and_after_the_session_stands_arrives_untouched_and_in_order() {
    run(|| async {
        let (vendor, mut stage) = stage_of(Scenario::default()).await;
        // Each frame is another one, and all codes are there.
        let audio: Vec<u8> = (0..110).flat_map(|frame| (frame..frame + 160).map(|code| code as u8)).collect();
        let (before, after) = audio.split_at(160 * 60);
        tell_audio(&stage, before).await;
        stage.is_ready().await;
        tell_audio(&stage, after).await;
        vendor.until_session(1, "heard all of it", |seen| seen.audio.len() >= audio.len()).await;
        assert_eq!(vendor.of(1, |seen| seen.audio.clone()), audio);
        vendor.is_content();
    });
}

#[test]
fn a_session_that_is_not_set_up_as_asked_is_lost_for_what_the_server_says() {
    run(|| async {
        let refused = |code| {
            let error = json!({ "type": "invalid_request_error", "code": code });
            Opening::SayAtSetUp(json!({ "type": "error", "error": error }).to_string())
        };
        for (opening, loss, attempts) in [
            (Opening::OtherFormats, AgentLoss::Handshake, 3),
            (refused("unknown_parameter"), AgentLoss::Handshake, 3),
            (refused("insufficient_quota"), AgentLoss::Quota, 1),
            (refused("invalid_api_key"), AgentLoss::Unauthorized, 1),
            (Opening::Refuse(404), AgentLoss::NotFound, 1),
        ] {
            let (vendor, mut stage) = stage_of(Scenario::all(opening.clone())).await;
            let mut expected = vec![AgentEvent::Lost(loss)];
            if let Opening::Refuse(status) = opening {
                expected.insert(0, AgentEvent::Refused { status });
            }
            assert_eq!(stage.rest().await, expected, "{opening:?}");
            assert_eq!(vendor.sessions(), attempts, "{opening:?}");
            stage.task.await.expect("no panic");
            vendor.until("every session is over", |sessions| sessions.iter().all(|seen| seen.over)).await;
        }
    });
}

#[test]
fn a_message_in_a_binary_frame_is_read_as_any_other() {
    run(|| async {
        let (vendor, mut stage) = ready(Scenario::default()).await;
        let started = br#"{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":0}"#;
        vendor.order(1, Order::Send(Message::binary(&started[..])));
        assert_eq!(stage.next().await, AgentEvent::CallerSpeechStarted { utterance: Some("i".into()) });
    });
}

#[test]
fn a_minute_of_audio_ten_times_faster_than_real_time_loses_nothing() {
    run(|| async {
        let answer = Duration::from_secs(60);
        let (_vendor, mut stage) = ready(Scenario { pace: 10.0, ..Scenario::answers(answer) }).await;
        let begun = Instant::now();
        stage.tell(greet()).await;
        let audio = spoken(&mut stage).await;
        assert!(begun.elapsed() < Duration::from_secs(9), "took {:?}", begun.elapsed());
        let said = encoded_tone(hertz(1) as f32, answer, Format::ULAW);
        assert!(audio[..] == said[..], "{} bytes, and not the same", audio.len());
    });
}

#[test]
fn an_interruption_truncates_to_what_was_heard_and_late_audio_keeps_its_response_id() {
    run(|| async {
        let scenario = Scenario { pace: 10.0, late: 3, ..Scenario::answers(Duration::from_secs(20)) };
        let (vendor, mut stage) = ready(scenario).await;
        stage.tell(greet()).await;
        let (response, item) = loop {
            if let AgentEvent::Audio { response, item, .. } = stage.next().await {
                break (response, item);
            }
        };
        tell_audio(&stage, &encoded_tone(300.0, Duration::from_millis(200), Format::ULAW)).await;
        assert!(matches!(stage.next_but_audio().await, AgentEvent::CallerSpeechStarted { .. }));
        let heard = Duration::from_millis(20);
        stage.tell(AgentCommand::Interrupt { response: response.clone(), item, heard, cancel: false }).await;
        vendor.until_session(1, "was told what was heard", |seen| seen.truncations == [heard]).await;
        loop {
            match stage.next().await {
                AgentEvent::ResponseDone { status, .. } => break assert_eq!(status, ResponseStatus::Cancelled),
                AgentEvent::Audio { .. } | AgentEvent::Usage(_) => {}
                other => panic!("{other:?}"),
            }
        }
        let AgentEvent::Audio { response: late, .. } = stage.next().await else { panic!("late audio is reported") };
        assert_eq!(late, response);
        assert_eq!(vendor.of(1, |seen| seen.cancels), 0, "the server had cancelled by itself");
        vendor.is_content();
    });
}

/// G answer 12: what is to be said is said and no more; what is told may be acted upon.
#[test]
fn an_agent_calls_tools_when_it_is_told_something_and_not_when_it_is_told_what_to_say() {
    run(|| async {
        let (vendor, mut stage) = ready(Scenario::default()).await;
        let call = Call { id: "call_0000000000000001".into(), name: "book".into(), arguments: json!({}) };
        vendor.order(1, Order::CallNext(vec![call]));
        let text = "The caller said yes by pressing a key.".to_owned();
        let commands =
            [greet(), AgentCommand::Say { text: text.clone() }, AgentCommand::Tell { text, reply: Reply::Wanted }];
        let mut seen = Vec::new();
        for command in commands {
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
        assert_eq!(seen, [false, false, true]);
        vendor.is_content();
    });
}

#[test]
fn when_the_call_ends_the_socket_is_closed_politely_and_soon() {
    run(|| async {
        let (vendor, stage) = ready(Scenario::default()).await;
        let begun = Instant::now();
        drop(stage.commands);
        stage.task.await.expect("no panic");
        assert!(begun.elapsed() < Duration::from_millis(900), "the server's goodbye was awaited in vain");
        vendor.until_session(1, "is over", |seen| seen.over).await;
    });
}
