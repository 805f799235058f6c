//! The log of one whole call: few lines, each of them the call's own, and none that tells on anybody.

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        vendor::{OpenAi, Scenario, Vendor},
    },
    ms, openai_agents,
};
use serde_json::Value;

/// A call has a beginning, an answer and an end to tell, and one or two things between them. With a
/// thousand calls an hour every line more is a thousand.
const INFO_LINES_MAX: usize = 6;

const NAME: &str = "Ada Lovelace";
const NUMBER: &str = "15550123";
const DIALLED: &str = "493012345";
const CALLERS_WORDS: &str = "my secret is a purple elephant";
/// The words of every answer.
const AGENTS_WORDS: &str = "A tone.";
/// Keys of the caller, too many to stand in a log by chance.
const KEYS: &str = "47110815";

const DIALPLAN: &str = "
[lab-callers](+)
exten => did,1,Set(FROM_DID=493012345)
 same => n,Set(AI_GREETING=Good evening from the dialplan)
 same => n,Stasis(offhook,support)
 same => n,Hangup()
";

/// One call with everything in it: words of both sides, keys, an interruption, a tool, a transfer.
async fn a_whole_call(log: &str) -> (Offhook, String) {
    let scenario = Scenario { caller_words: CALLERS_WORDS, agent_words: AGENTS_WORDS, ..Scenario::answers(ms(1_500)) };
    let server = Vendor::start::<OpenAi>(scenario).await;
    let asterisk = Asterisk::start(Options { dialplan: DIALPLAN.into(), ..Options::default() }).await;
    let place = Place::free();
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), openai_agents(&server));
    let offhook = Offhook::launch(place, &yaml, Launch { log, log_format: "json", ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    let says = silence(ms(800)) + tone(700.0, ms(600)) + silence(ms(60_000));
    let mut phone = Phone::call_as(asterisk.sip_port(), "did", says, NAME, NUMBER).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    server.until_session(1, "understood the caller", |seen| seen.turns_ended == 1).await;
    for key in KEYS.chars() {
        phone.dtmf(key).await;
    }
    phone.wait_to_hear(AGENT_HZ, ms(2_000), SOON).await;
    phone.hang_up().await;
    offhook.wait_ended(1, SOON).await;
    asterisk.wait_empty(SOON).await;
    let page = offhook.page("").await.1 + &offhook.page("metrics").await.1 + &offhook.page("calls").await.1;
    for secret in [NAME, NUMBER, DIALLED, CALLERS_WORDS, AGENTS_WORDS, "key-of-the-test", asterisk.ari_password()] {
        assert!(!page.contains(secret), "{secret:?} is on a page:\n{page}");
        assert!(!offhook.log().contains(secret), "{secret:?} is in the log:\n{}", offhook.log());
    }
    for part in ["Ada", "Lovelace", "elephant", "from the dialplan", "You are a test", KEYS] {
        assert!(!offhook.log().contains(part), "{part:?} is in the log:\n{}", offhook.log());
    }
    let log = offhook.log();
    (offhook, log)
}

async fn a_call_is_a_handful_of_lines_each_within_its_span() {
    let (_offhook, log) = a_whole_call("info").await;
    let lines = offhook_kit::json_lines(&log);
    let began = lines.iter().position(|line| line["message"] == "call began").expect("a call begins");
    let about: Vec<&Value> = lines[began..].iter().collect();
    assert!((2..=INFO_LINES_MAX).contains(&about.len()), "{} lines:\n{log}", about.len());
    assert!(about.iter().all(|line| line["level"] == "INFO"), "an ordinary call is no cause for a warning:\n{log}");
    let id = &about[0]["span"]["call_id"];
    assert!(id.as_str().is_some_and(|id| id.len() == 36), "{log}");
    assert!(about[0]["peer"].is_string(), "what the other side calls the call: {log}");
    for line in &about {
        let span = &line["span"];
        assert_eq!((&span["name"], &span["call_id"]), (&"call".into(), id), "{line}");
        assert_eq!((&span["context"], &span["provider"]), (&"support".into(), &"ai".into()), "{line}");
    }
    let last = about
        .iter()
        .rfind(|line| line["message"].as_str().is_some_and(|m| m.starts_with("call ended")))
        .expect("an end");
    assert_eq!((&last["reason"], &last["class"]), (&"caller_hung_up".into(), &"normal".into()), "{log}");
}

async fn the_debug_log_tells_no_more_of_anybody() {
    let (_offhook, log) = a_whole_call("debug").await;
    assert!(offhook_kit::json_lines(&log).iter().any(|line| line["level"] == "DEBUG"), "{log}");
    // Nor does trace, which is of our own making only as far as dependencies are kept quiet.
    a_whole_call("trace").await;
}

crate::scenes! {
    both:
        a_call_is_a_handful_of_lines_each_within_its_span,
        the_debug_log_tells_no_more_of_anybody;
}
