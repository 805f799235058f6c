//! Scripts played through a whole session, on a virtual clock.

use super::*;
use crate::{
    audio::FRAME,
    call::{AgentCommand, AgentEvent, AgentLoss, Reply, ResponseId, ResponseStatus, Speaker},
    facts::CallId,
    provider::{ProviderCounters, SessionPolicy, run},
};
use bytes::Bytes;
use prometheus::Registry;
use serde_json::json;
use tokio::time::{sleep, timeout};

/// The call's side: it speaks frame by frame, and remembers when it heard what.
struct Stage {
    commands: mpsc::Sender<AgentCommand>,
    events: mpsc::Receiver<AgentEvent>,
    begun: Instant,
}

impl Stage {
    fn of(options: &Value) -> Self {
        let provider = crate::provider::build(KIND.kind, options).map_err(|problems| format!("{problems:?}")).unwrap();
        let setup = AgentSetup::new(CallId::random(), Format::ULAW);
        let counters = Arc::new(ProviderCounters::new(&Registry::new()).unwrap());
        let (commands, command_receiver) = mpsc::channel(64);
        let (event_sender, events) = mpsc::channel(64);
        tokio::spawn(run(provider, setup, command_receiver, event_sender, SessionPolicy::default(), counters));
        Self { commands, events, begun: Instant::now() }
    }

    /// A session whose script has been told to begin.
    async fn begun(options: Value, greeting: Option<&str>) -> Self {
        let mut stage = Self::of(&options);
        assert_eq!(stage.next().await, AgentEvent::Ready);
        stage.tell(AgentCommand::Greet { text: greeting.map(str::to_owned) }).await;
        stage.begun = Instant::now();
        stage
    }

    async fn tell(&self, command: AgentCommand) {
        self.commands.send(command).await.unwrap();
    }

    async fn next(&mut self) -> AgentEvent {
        timeout(Duration::from_secs(60), self.events.recv()).await.expect("an event").expect("a session")
    }

    /// Events until one of this kind, with what was heard on the way.
    async fn until(&mut self, wanted: impl Fn(&AgentEvent) -> bool) -> (AgentEvent, Vec<u8>) {
        let mut audio = Vec::new();
        loop {
            match self.next().await {
                event if wanted(&event) => return (event, audio),
                AgentEvent::Audio { audio: piece, .. } => audio.extend_from_slice(&piece),
                _ => {}
            }
        }
    }

    async fn done(&mut self) -> (ResponseId, ResponseStatus, Vec<u8>) {
        match self.until(|event| matches!(event, AgentEvent::ResponseDone { .. })).await {
            (AgentEvent::ResponseDone { response, status }, audio) => (response, status, audio),
            _ => unreachable!(),
        }
    }

    async fn says(&mut self) -> String {
        let said = |event: &AgentEvent| matches!(event, AgentEvent::Transcript { speaker: Speaker::Agent, .. });
        match self.until(said).await {
            (AgentEvent::Transcript { text, .. }, _) => text,
            _ => unreachable!(),
        }
    }

    /// The caller makes noise, or none, for so long.
    async fn caller(&self, byte: u8, length_ms: u64) {
        for _ in 0..length_ms / 20 {
            self.tell(AgentCommand::Audio(Bytes::from(vec![byte; 160]))).await;
            sleep(FRAME).await;
        }
    }

    async fn caller_speaks(&self, length_ms: u64) {
        self.caller(0x10, length_ms).await;
    }

    async fn caller_is_quiet(&self, length_ms: u64) {
        self.caller(0xff, length_ms).await;
    }

    fn elapsed_ms(&self) -> u128 {
        self.begun.elapsed().as_millis()
    }
}

fn length_ms(audio: &[u8]) -> u128 {
    Format::ULAW.duration_of(audio.len()).as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_line_is_spoken_in_real_time_at_pace_one_and_faster_at_a_higher_pace() {
    for (pace, took) in [(json!(1), 980..=1_000), (json!(5), 180..=200), (json!("burst"), 0..=5)] {
        let options = json!({ "pace": pace, "script": [{ "tone": { "hertz": 440, "for": "1s" } }] });
        let mut stage = Stage::begun(options, None).await;
        let (_, status, audio) = stage.done().await;
        assert_eq!((status, length_ms(&audio)), (ResponseStatus::Completed, 1_000));
        assert!(took.contains(&stage.elapsed_ms()), "pace {pace}: {} ms", stage.elapsed_ms());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_line_is_the_greeting_unless_the_context_has_its_own() {
    let options = json!({ "script": [{ "say": "From the script." }, { "say": "And on." }] });
    let mut stage = Stage::begun(options.clone(), None).await;
    assert_eq!((stage.says().await, stage.says().await), ("From the script.".into(), "And on.".into()));
    let mut stage = Stage::begun(options, Some("From the context.")).await;
    assert_eq!((stage.says().await, stage.says().await), ("From the context.".into(), "And on.".into()));
}

#[tokio::test(start_paused = true)]
async fn a_script_listens_until_the_caller_has_spoken_and_stopped() {
    let script = json!([{ "say": "Yes?" }, { "listen": null }, { "say": "I see." }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    assert_eq!(stage.says().await, "Yes?");
    stage.caller_is_quiet(1_000).await;
    stage.caller_speaks(600).await;
    stage.caller_is_quiet(700).await;
    stage.until(|event| *event == AgentEvent::CallerSpeechStarted { utterance: None }).await;
    stage.until(|event| *event == AgentEvent::CallerSpeechStopped).await;
    assert_eq!(stage.says().await, "I see.");
}

#[tokio::test(start_paused = true)]
async fn a_listen_with_a_timeout_goes_on_after_it_counted_from_the_end_of_the_line() {
    let script =
        json!([{ "tone": { "hertz": 440, "for": "2s" } }, { "listen": { "timeout": "3s" } }, { "say": "Well?" }]);
    for pace in [json!(1), json!("burst")] {
        let mut stage = Stage::begun(json!({ "pace": pace, "script": script }), None).await;
        stage.done().await;
        stage.until(|event| matches!(event, AgentEvent::ResponseStarted { .. })).await;
        assert!((4_960..=5_001).contains(&stage.elapsed_ms()), "pace {pace}: {} ms", stage.elapsed_ms());
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_talks_into_a_line_cancels_it_and_the_script_goes_on_when_they_are_quiet() {
    let script = json!([
        { "say": "This is a line of a good many words, which nobody would want to hear to its end." },
        { "listen": {} }, { "say": "Go on." },
    ]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    stage.caller_is_quiet(1_000).await;
    stage.caller_speaks(500).await;
    let (_, before) = stage.until(|event| *event == AgentEvent::CallerSpeechStarted { utterance: None }).await;
    assert!((1_000..=1_100).contains(&length_ms(&before)), "{} ms", length_ms(&before));
    let said = stage.says().await;
    assert!(said.starts_with("This is") && said.ends_with('…') && said.len() < 40, "{said}");
    let (_, status, more) = stage.done().await;
    assert_eq!((status, more.len()), (ResponseStatus::Cancelled, 0));
    stage.caller_is_quiet(600).await;
    assert_eq!(stage.says().await, "Go on.");
}

#[tokio::test(start_paused = true)]
async fn with_on_interrupt_repeat_the_line_is_said_again() {
    let script = json!([{ "tone": { "hertz": 440, "for": "3s" } }, { "listen": {} }]);
    for pace in [json!(1), json!("burst")] {
        let options = json!({ "pace": pace, "on_interrupt": "repeat", "script": script });
        let mut stage = Stage::begun(options, None).await;
        let (first, _) = stage.until(|event| matches!(event, AgentEvent::Audio { .. })).await;
        let AgentEvent::Audio { response, item, .. } = first else { unreachable!() };
        stage.caller_is_quiet(500).await;
        stage.caller_speaks(300).await;
        // What the core does when it hears of the caller's speech.
        let heard = Duration::from_millis(600);
        stage.tell(AgentCommand::Interrupt { response, item, heard, cancel: false }).await;
        stage.until(|event| *event == AgentEvent::CallerSpeechStarted { utterance: None }).await;
        stage.caller_is_quiet(700).await;
        stage.until(|event| *event == AgentEvent::CallerSpeechStopped).await;
        let (_, status, audio) = stage.done().await;
        assert_eq!((status, length_ms(&audio)), (ResponseStatus::Completed, 3_000), "pace {pace}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_and_its_result_awaited() {
    let script = json!([{ "call": { "tool": "transfer", "arguments": { "to": "sales" } } }, { "say": "Done." }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    let (call, _) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    let AgentEvent::ToolCall(call) = call else { unreachable!() };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("transfer", r#"{"to":"sales"}"#));
    stage.done().await;
    sleep(Duration::from_secs(5)).await;
    assert!(stage.events.try_recv().is_err(), "it waits");
    stage.tell(AgentCommand::ToolResult { call_id: call.id, output: "{}".into(), reply: Reply::Wanted }).await;
    assert_eq!(stage.says().await, "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_script_rests_while_the_call_ends_and_goes_on_if_it_comes_back() {
    let script = json!([{ "call": { "tool": "transfer" } }, { "say": "I cannot connect you." }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    let (call, _) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    let AgentEvent::ToolCall(call) = call else { unreachable!() };
    stage.done().await;
    stage.tell(AgentCommand::ToolResult { call_id: call.id, output: "{}".into(), reply: Reply::NotNow }).await;
    sleep(Duration::from_secs(5)).await;
    assert!(stage.events.try_recv().is_err(), "it rests");
    stage.tell(AgentCommand::Say { text: "The transfer did not work.".into() }).await;
    assert_eq!(stage.says().await, "The transfer did not work.");
    assert_eq!(stage.says().await, "I cannot connect you.");
}

#[tokio::test(start_paused = true)]
async fn a_script_whose_result_comes_while_the_caller_speaks_goes_on_after_that() {
    let script = json!([{ "call": { "tool": "look_up" } }, { "say": "We open at nine." }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    let (call, _) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    let AgentEvent::ToolCall(call) = call else { unreachable!() };
    stage.caller_speaks(400).await;
    stage.tell(AgentCommand::ToolResult { call_id: call.id, output: "{}".into(), reply: Reply::NotNow }).await;
    stage.caller_speaks(200).await;
    stage.caller_is_quiet(700).await;
    assert_eq!(stage.says().await, "We open at nine.");
}

/// The answer to a call, given at once or while the caller has the floor.
async fn answers(stage: &mut Stage, output: Value, reply: Reply) {
    let (call, _) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    let AgentEvent::ToolCall(call) = call else { unreachable!() };
    stage.tell(AgentCommand::ToolResult { call_id: call.id, output: output.to_string(), reply }).await;
}

const LOOKS_UP_AND_SPEAKS: &str =
    r#"[{ "call": { "tool": "look_up", "speak": true } }, { "say": "Is there anything else?" }]"#;

/// M4, M17: a script that speaks results says their `message`, or what is told of the failure, and then goes on.
#[tokio::test(start_paused = true)]
async fn a_script_speaks_what_a_tool_has_found_or_why_it_failed() {
    for (output, spoken) in [
        (json!({ "ok": true, "message": "We open at nine.", "data": { "hours": "9-17" } }), "We open at nine."),
        (json!({ "ok": false, "error": { "type": "TIMEOUT", "message": "It took too long." } }), "It took too long."),
    ] {
        let script: Value = serde_json::from_str(LOOKS_UP_AND_SPEAKS).unwrap();
        let mut stage = Stage::begun(json!({ "script": script }), None).await;
        answers(&mut stage, output, Reply::Wanted).await;
        assert_eq!(stage.says().await, spoken);
        assert_eq!(stage.says().await, "Is there anything else?");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_without_words_is_not_spoken() {
    for output in [json!({}), json!({ "message": " " }), json!({ "message": 4 }), json!([1]), json!({ "error": "no" })]
    {
        let script: Value = serde_json::from_str(LOOKS_UP_AND_SPEAKS).unwrap();
        let mut stage = Stage::begun(json!({ "script": script }), None).await;
        answers(&mut stage, output, Reply::Wanted).await;
        assert_eq!(stage.says().await, "Is there anything else?");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_spoken_unless_the_script_says_so() {
    let script = json!([{ "call": { "tool": "look_up" } }, { "say": "Is there anything else?" }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    answers(&mut stage, json!({ "message": "We open at nine." }), Reply::Wanted).await;
    assert_eq!(stage.says().await, "Is there anything else?");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_spoken_when_the_caller_has_finished() {
    let script: Value = serde_json::from_str(LOOKS_UP_AND_SPEAKS).unwrap();
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    stage.caller_speaks(400).await;
    answers(&mut stage, json!({ "message": "We open at nine." }), Reply::NotNow).await;
    stage.caller_speaks(200).await;
    let spoken = |event: &AgentEvent| matches!(event, AgentEvent::Audio { .. });
    assert!(std::iter::from_fn(|| stage.events.try_recv().ok()).all(|event| !spoken(&event)), "not into the caller");
    stage.caller_is_quiet(700).await;
    assert_eq!(stage.says().await, "We open at nine.");
    assert_eq!(stage.says().await, "Is there anything else?");
}

/// A tool's words may be about the caller, and hardly ever come twice.
#[tokio::test]
async fn spoken_results_are_not_kept() {
    let speech = Speech::new(VoiceKind::EspeakNg, crate::speech::Espeak::default());
    for (keep, kept) in [(false, false), (true, true)] {
        render(&speech, "It is quarter past three.", Format::ULAW, keep).await;
        assert_eq!(speech.at_once("It is quarter past three.", Format::ULAW).is_some(), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_farewell_comes_before_its_hang_up_in_one_response() {
    let mut stage = Stage::begun(json!({ "script": [{ "hang_up": "Goodbye." }] }), None).await;
    let (call, audio) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    let AgentEvent::ToolCall(call) = call else { unreachable!() };
    assert_eq!((call.name.as_str(), length_ms(&audio)), ("hangup_call", 480));
    let (_, status, _) = stage.done().await;
    assert_eq!(status, ResponseStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_farewell_is_said_again_and_does_not_hang_up() {
    let mut stage =
        Stage::begun(json!({ "script": [{ "hang_up": "Goodbye, and thank you for the call." }] }), None).await;
    stage.caller_is_quiet(500).await;
    stage.caller_speaks(300).await;
    let (_, status, _) = stage.done().await;
    assert_eq!(status, ResponseStatus::Cancelled);
    stage.caller_is_quiet(700).await;
    assert_eq!(stage.says().await, "Goodbye, and thank you for the call.");
    stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_call_wants_said_is_said_between_the_scripts_lines() {
    let mut stage =
        Stage::begun(json!({ "script": [{ "say": "Yes?" }, { "listen": {} }, { "say": "I see." }] }), None).await;
    assert_eq!(stage.says().await, "Yes?");
    stage.tell(AgentCommand::Say { text: "Are you still there?".into() }).await;
    assert_eq!(stage.says().await, "Are you still there?");
    stage.caller_speaks(300).await;
    stage.caller_is_quiet(700).await;
    assert_eq!(stage.says().await, "I see.");
}

#[tokio::test(start_paused = true)]
async fn a_text_is_what_a_script_listens_for() {
    let script = json!([{ "say": "Yes?" }, { "listen": {} }, { "say": "I see." }]);
    let mut stage = Stage::begun(json!({ "script": script }), None).await;
    assert_eq!(stage.says().await, "Yes?");
    stage.tell(AgentCommand::Written { text: "Are you open?".into() }).await;
    assert_eq!(stage.says().await, "I see.");
}

#[tokio::test(start_paused = true)]
async fn what_a_script_is_told_begins_it_or_is_said() {
    let tell = |text: &str, reply| AgentCommand::Tell { text: text.into(), reply };
    let mut stage = Stage::of(&json!({ "script": [{ "say": "Yes?" }, { "listen": {} }] }));
    assert_eq!(stage.next().await, AgentEvent::Ready);
    stage.tell(tell("You take over.", Reply::Wanted)).await;
    assert_eq!(stage.says().await, "Yes?");
    stage.tell(tell("Keep it in mind.", Reply::NotNow)).await;
    stage.tell(tell("A key was pressed.", Reply::Wanted)).await;
    assert_eq!(stage.says().await, "A key was pressed.");
}

#[tokio::test(start_paused = true)]
async fn an_echo_sends_the_callers_audio_back_and_is_not_interrupted_by_it() {
    let mut stage = Stage::begun(json!({ "script": [{ "echo": "1s" }, { "say": "Over." }] }), None).await;
    stage.until(|event| matches!(event, AgentEvent::ResponseStarted { .. })).await;
    stage.caller_speaks(600).await;
    let (_, status, audio) = stage.done().await;
    assert_eq!(status, ResponseStatus::Completed);
    assert_eq!(audio, vec![0x10; 160 * 30]);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_script_goes_round_at_the_pace_of_speech() {
    let script = json!([{ "tone": { "hertz": 440, "for": "1s" } }, "repeat"]);
    let mut stage = Stage::begun(json!({ "pace": "burst", "script": script }), None).await;
    for _ in 0..5 {
        stage.done().await;
    }
    assert!((3_990..=4_010).contains(&stage.elapsed_ms()), "{} ms", stage.elapsed_ms());
}

#[tokio::test(start_paused = true)]
async fn faults_look_like_those_of_a_vendor() {
    let mut stage = Stage::begun(json!({ "script": [{ "say": "Hm." }, { "close": 1011 }] }), None).await;
    stage.done().await;
    assert_eq!(stage.next().await, AgentEvent::Lost(AgentLoss::Closed));
    assert_eq!(stage.events.recv().await, None);

    let mut stage = Stage::begun(json!({ "script": ["silence"] }), None).await;
    stage.tell(AgentCommand::Say { text: "Are you there?".into() }).await;
    stage.caller_speaks(20_000).await;
    assert!(stage.events.try_recv().is_err(), "it takes everything and answers nothing");

    let stage = Stage::begun(json!({ "script": ["stall"] }), None).await;
    let mut taken = 0;
    while stage.commands.try_send(AgentCommand::Audio(Bytes::from(vec![0xff; 160]))).is_ok() {
        taken += 1;
        sleep(FRAME).await;
    }
    assert!(taken < 500, "{taken} frames taken");
}

#[tokio::test]
async fn spoken_lines_start_at_once_and_a_greeting_with_a_name_is_rendered_for_the_call() {
    let options = json!({
        "voice": "espeak-ng", "pace": "burst",
        "script": [{ "say": "Hello." }, { "say": "How can I help you?" }],
    });
    let mut stage = Stage::begun(options, Some("Hello Ada, this is the shop.")).await;
    let (_, _, greeting) = stage.done().await;
    assert!((1_000..4_000).contains(&length_ms(&greeting)), "{} ms", length_ms(&greeting));
    let (_, _, line) = stage.done().await;
    assert!((700..2_500).contains(&length_ms(&line)), "{} ms", length_ms(&line));
}

#[test]
fn all_mistakes_in_a_script_are_found_at_once() {
    let options = json!({
        "pace": 20,
        "script": [{ "say": " " }, { "tone": { "hertz": 1, "for": "1s" } }, "stall", { "call": { "tool": "" } }],
    });
    let paths: Vec<String> = (KIND.check)(&options).into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["script[0].say", "script[1].tone.hertz", "script[3]", "script[3].call.tool", "pace"]);
    let spin = (KIND.check)(&json!({ "script": [{ "call": { "tool": "x" } }, "repeat"] }));
    assert_eq!(spin[0].path, "script[1]");
    assert_eq!((KIND.check)(&json!({ "script": [] }))[0].path, "script");
    assert!((KIND.check)(&json!({ "script": [{ "pause": "2 days" }] }))[0].message.contains("500ms or 2s"));
}

#[test]
fn the_schema_accepts_every_step() {
    let schema = jsonschema::validator_for(&(KIND.schema)()).unwrap();
    let all = json!({
        "voice": "espeak-ng", "espeak": { "voice": "de", "words_per_minute": 150 }, "pace": "burst",
        "on_interrupt": "repeat", "detector": { "threshold_dbfs": -35.0, "onset": "80ms", "hangover": "0.4s" },
        "script": [
            { "say": "Hello." }, { "tone": { "hertz": 440, "for": "1s" } }, { "listen": null }, { "listen": {} },
            { "listen": { "timeout": "5s" } }, { "pause": "500ms" }, { "call": { "tool": "t", "arguments": {} } },
            { "hang_up": "Bye." }, { "echo": "2s" }, { "close": 1011 }, "silence", "stall", "repeat",
        ],
    });
    let errors: Vec<String> = schema.iter_errors(&all).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    assert!(Options::deserialize(&all).is_ok());
    assert!(!schema.is_valid(&json!({ "script": [{ "sing": "Hello." }] })));
    assert!(!schema.is_valid(&json!({ "script": [{ "pause": "2 days" }] })));
}

/// As an admin writes it: greets, listens, may be interrupted, hangs up politely.
#[tokio::test(start_paused = true)]
async fn a_conversation_written_in_yaml_is_held_from_greeting_to_hang_up() {
    let options = "
voice: tone
pace: 4
script:
  - say: Hello, this is the demo of the flower shop. What can I do for you?
  - listen:
      timeout: 8s
  - say: We are open from nine to six, Monday to Saturday, and on Sundays before holidays from ten to noon.
  - listen:
  - hang_up: Thank you for calling. Goodbye.
";
    let mut stage = Stage::begun(serde_yaml::from_str(options).unwrap(), None).await;
    assert!(stage.says().await.starts_with("Hello"));
    stage.caller_speaks(800).await;
    stage.caller_is_quiet(700).await;
    stage.caller_speaks(400).await;
    let (_, audio) = stage.until(|event| matches!(event, AgentEvent::CallerSpeechStopped)).await;
    assert!(audio.is_empty());
    let (_, status, _) = stage.done().await;
    assert_eq!(status, ResponseStatus::Cancelled, "the caller talks into the opening hours");
    stage.caller_is_quiet(700).await;
    let (call, _) = stage.until(|event| matches!(event, AgentEvent::ToolCall(_))).await;
    assert!(matches!(call, AgentEvent::ToolCall(call) if call.name == "hangup_call"));
}
