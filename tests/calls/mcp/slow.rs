//! Tools that take long: what the caller hears of it, and who says it.

use super::*;
use crate::calls::kit::audio::{Sound, Span};

const ANNOUNCEMENT: &str = "One moment, please. ";
/// What a script's lines sound like here, and its greeting.
const LINE_HZ: f64 = 440.0;
const GREETING_HZ: f64 = 800.0;

fn defaults() -> String {
    format!(", slow_response_threshold_ms: 400, slow_response_message: \"{ANNOUNCEMENT}\"")
}

/// The one line that is heard, from its begin to its end: a busy machine may hold up the audio of a real call in the middle of it.
fn line(heard: &Sound) -> Span {
    let spans = heard.spans_of(LINE_HZ);
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { panic!("no line: {:?}", heard.loud_spans()) };
    Span { begin: first.begin, end: last.end }
}

/// Whether a tone is as long as a line of so many characters, as far as a phone on a busy machine can tell.
fn is_line(span: &Span, characters: usize) -> bool {
    let expected = ms(60) * u32::try_from(characters).expect("a short line");
    span.length().abs_diff(expected) < ms(250)
}

/// M21, M22, M42, M answer 10: once in a turn the caller hears that a tool takes long, however many do; then the agent
/// speaks the result.
async fn a_scripted_agent_announces_a_slow_tool_once() {
    let servers = [("plain", faulty("plain", &defaults(), ""))];
    let script = "  script: { scripted: { script: [{ tone: { hertz: 800, for: 500ms } }, { call: { tool: mcp_plain_sleep, \
                  arguments: { seconds: 3 } } }, { call: { tool: mcp_plain_sleep, arguments: { seconds: 2 }, speak: true } }, \
                  { tone: { hertz: 800, for: 60s } }] } }\n";
    let contexts = "  support: { prompt: You are a test., provider: script, tools: [mcp_plain_sleep] }\n";
    let setting = Setting { servers: &servers, providers: script, contexts, ..Setting::default() };
    let scene = Scene::start(setting).await;
    let mut phone = Phone::call(scene.asterisk.sip_port(), "7001", silence(ms(60_000))).await;
    phone.wait_established(SOON).await;
    phone.wait_to_hear(GREETING_HZ, ms(1_000), PATIENCE).await;
    phone.hang_up().await;
    scene.offhook.wait_ended(1, SOON).await;
    let heard = phone.heard();
    let result = line(&heard);
    assert!(is_line(&result, "slept 2 s".len()), "{result:?}");
    let greeting = heard.spans_of(GREETING_HZ)[0];
    let between = heard.part(greeting.end + ms(100)..result.begin - ms(100));
    let spoken = between.loud_spans();
    let length: std::time::Duration = spoken.iter().map(|span| span.length()).sum();
    assert!((ms(700)..ms(2_500)).contains(&length), "a sentence: {spoken:?}");
    assert!((ms(200)..ms(1_500)).contains(&spoken[0].begin), "400 ms after the greeting: {spoken:?}");
    assert_eq!(scene.lines("the agent is asked to announce a tool").len(), 1);
    assert_eq!(scene.counted("plain", "ok").await, 2.0);
    scene.asterisk.wait_empty(SOON).await;
}

/// M21, M answer 10: a result that comes before the threshold is not announced.
async fn a_quick_tool_is_not_announced() {
    let servers = [("plain", faulty("plain", &defaults().replace("400", "5000"), ""))];
    let script = "  script: { scripted: { script: [{ call: { tool: mcp_plain_sleep, arguments: { seconds: 1 }, speak: true } \
                  }, { tone: { hertz: 800, for: 60s } }] } }\n";
    let contexts = "  support: { prompt: You are a test., provider: script, tools: [mcp_plain_sleep] }\n";
    let setting = Setting { servers: &servers, providers: script, contexts, ..Setting::default() };
    let scene = Scene::start(setting).await;
    let mut phone = Phone::call(scene.asterisk.sip_port(), "7001", silence(ms(60_000))).await;
    phone.wait_to_hear(GREETING_HZ, ms(500), PATIENCE).await;
    phone.hang_up().await;
    scene.offhook.wait_ended(1, SOON).await;
    let result = line(&phone.heard());
    assert!(is_line(&result, "slept 1 s".len()), "{result:?}");
    assert!(scene.lines("the agent is asked to announce a tool").is_empty());
}

/// M22, M answer 10: also beside a provider that owns its audio; it is told in text what was said, gets the result, and
/// speaks.
async fn a_realtime_agent_is_told_what_the_caller_heard() {
    let servers = [("plain", faulty("plain", &defaults(), ""))];
    let scene = Scene::start(Setting { servers: &servers, offered: "mcp_plain_sleep", ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    let before = scene.model.told(1).len();
    let output = scene.tool("mcp_plain_sleep", json!({ "seconds": 2 })).await;
    assert_eq!(message(&output), "slept 2 s");
    let told = scene.model.told(1).split_off(before);
    let kinds: Vec<_> = told.iter().map(|message| message["type"].clone()).collect();
    let expected = ["conversation.item.create", "conversation.item.create", "response.create"];
    assert_eq!(kinds, expected, "what was said, the output, and the wish for words, no more");
    assert!(told[0].to_string().contains(ANNOUNCEMENT.trim()));
    let log = scene.offhook.log();
    assert!(log.contains("asked to announce a tool") && !log.contains(ANNOUNCEMENT.trim()), "{log}");
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    scene.ends(phone).await;
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_scripted_agent_announces_a_slow_tool_once,
        a_quick_tool_is_not_announced,
        a_realtime_agent_is_told_what_the_caller_heard;
}
