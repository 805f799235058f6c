//! What breaks, and what the caller hears of it.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{Span, silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
        proxy::Proxy,
        vendor::{Call, OpenAi, Opening, Order, Scenario, Vendor},
    },
    legs::fall_behind,
    ms, pbx,
};
use serde_json::{Value, json};
use std::time::Duration;

const AGENT_FOR_A_MINUTE: &str = "- tone: { hertz: 440, for: 60s }";

async fn dial(asterisk: &Asterisk) -> Phone {
    Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await
}

// ---- Asterisk ----

/// As a crash and a restart would; calls are gone, nobody is told.
async fn die_and_come_back(asterisk: &mut Asterisk, offhook: &Offhook) {
    asterisk.kill().await;
    offhook.wait_ready(false).await;
    asterisk.start_again().await;
    offhook.wait_ready(true).await;
}

async fn a_wrong_password_is_said_on_the_ready_page_and_tried_again_in_peace() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), agent(AGENT_FOR_A_MINUTE, ""));
    let wrong = yaml.replace(asterisk.ari_password(), "wrong");
    let offhook = Offhook::start(place, &wrong).await;
    offhook.wait_metric("offhook_ari_reconnects_total{reason=\"unauthorized\"}", 1.0, SOON).await;
    let body = offhook.wait_ready(false).await;
    assert!(body.contains("password"), "{body}");
    assert!(!offhook.log().contains(asterisk.ari_password()));
}

/// T11: Asterisk is killed during a call over AudioSocket.
async fn an_asterisk_that_comes_later_or_comes_again_finds_the_engine_waiting() {
    let mut asterisk = Asterisk::start(Options::default()).await;
    asterisk.kill().await;
    let place = Place::free();
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), agent(AGENT_FOR_A_MINUTE, ""));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(false).await;
    asterisk.start_again().await;
    offhook.wait_ready(true).await;
    let phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;

    // Asterisk dies with the call in it.
    die_and_come_back(&mut asterisk, &offhook).await;
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!(ended[0]["reason"]["class"], "asterisk");
    offhook.wait_active(0, SOON).await;
    let mut again = dial(&asterisk).await;
    again.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    again.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

/// T11: Asterisk is killed during a call over RTP.
async fn an_rtp_call_whose_asterisk_died_ends_when_asterisk_is_back() {
    let (mut asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, "    audio: rtp/ulaw\n").await;
    let phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    die_and_come_back(&mut asterisk, &offhook).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "channel_gone");
}

/// T17: a caller whose engine was killed.
async fn a_caller_left_by_an_engine_that_died_goes_to_a_human_when_the_next_one_comes() {
    let asterisk = Asterisk::start(Options::default()).await;
    let (place, again) = (Place::free(), Place::free());
    let yaml = |place: &Place| format!("{}{}", place.yaml(Some(&asterisk)), agent(AGENT_FOR_A_MINUTE, ""));
    let (first, second) = (yaml(&place), yaml(&again));
    let mut offhook = Offhook::start(place, &first).await;
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    offhook.signal("KILL").await;
    offhook.wait_exit(SOON).await;
    let offhook = Offhook::start(again, &second).await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
    offhook.wait_metric("offhook_ari_orphans_removed_total", 1.0, SOON).await;
}

// ---- The provider ----

/// An agent of the emulated OpenAI; u-law passes through untouched.
fn openai(server: &Vendor, leg: &str, more: &str) -> String {
    format!(
        "default_context: front\nproviders:\n  ai: {}\n\
         contexts:\n  front:\n    prompt: You are a test.\n    greeting: Hello {{caller_name}}\n    provider: ai\n    \
         audio: {leg}\n    tools: [hangup_call]\n{more}",
        server.yaml()
    )
}

/// Nobody replaces an agent that is lost.
const ALONE: &str = "    limits: { recovery: { attempts: 0 } }\n";

async fn openai_pbx(scenario: Scenario, more: &str) -> (Vendor, Asterisk, Offhook) {
    openai_pbx_over("rtp/ulaw", scenario, more).await
}

async fn openai_pbx_over(leg: &str, scenario: Scenario, more: &str) -> (Vendor, Asterisk, Offhook) {
    let server = Vendor::start::<OpenAi>(scenario).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, &openai(&server, leg, more)).await;
    (server, asterisk, offhook)
}

async fn openai_greets_is_interrupted_is_told_what_was_heard_and_answers() {
    openai_is_told_what_was_heard_over("rtp/ulaw").await;
}

/// T24: marks tell the agent how much of its answer was heard; what waited in Asterisk was not.
async fn openai_is_told_that_what_waited_in_asterisk_was_not_heard() {
    let server = Vendor::start::<OpenAi>(Scenario { pace: 10.0, ..Scenario::answers(ms(20_000)) }).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::to(asterisk.http_port()).await;
    let place = Place::free();
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let offhook = Offhook::start(place, &format!("{yaml}{}", openai(&server, "websocket/slin16", ""))).await;
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(1_000), SOON).await;
    fall_behind(&proxy, &offhook).await;
    let said = phone.heard().length();
    phone.say(tone(CALLER_HZ, ms(800))).await;
    let told = truncated(&server).await;
    phone.wait_to_hear(AGENT_HZ, said + ms(1_000), SOON).await;
    phone.hang_up().await;
    // The new answer comes when the caller's tone is over.
    let spans = phone.heard().spans_of(AGENT_HZ);
    let greeting: Vec<Span> = spans.into_iter().filter(|span| span.begin < said + ms(700)).collect();
    let truly: Duration = greeting.iter().map(|span| span.length()).sum();
    assert!(
        truly.abs_diff(told) <= ms(100 + 50 * greeting.len() as u64),
        "told {told:?}, heard {truly:?}: {greeting:?}"
    );
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
}

/// T24: the transports that no other test of this file takes.
async fn openai_is_told_what_was_heard_over_the_other_legs_as_well() {
    for leg in ["audiosocket/slin", "websocket/slin16"] {
        openai_is_told_what_was_heard_over(leg).await;
    }
}

/// How much of its greeting the agent is told that the caller heard.
async fn truncated(server: &Vendor) -> Duration {
    server.until_session(1, "is told what was heard", |seen| !seen.truncations.is_empty()).await;
    server.of(1, |seen| seen.truncations[0])
}

async fn openai_is_told_what_was_heard_over(leg: &str) {
    let scenario = Scenario { pace: 10.0, ..Scenario::answers(ms(8_000)) };
    let (server, asterisk, offhook) = openai_pbx_over(leg, scenario, "").await;
    let says = silence(ms(3_000)) + tone(CALLER_HZ, ms(800)) + silence(ms(60_000));
    let mut phone = Phone::call_as(asterisk.sip_port(), "7000", says, "Ada", "15550123").await;
    phone.wait_to_hear(AGENT_HZ, ms(1_000), SOON).await;
    let told = truncated(&server).await;
    phone.wait_to_hear(AGENT_HZ, ms(5_000), SOON).await;
    phone.hang_up().await;
    let spans = phone.heard().spans_of(AGENT_HZ);
    // The new answer comes when the caller's tone, from 3 s to 3.8 s, is over. The greeting may be paused and go on
    // before it is given up: the tone is no voice.
    let (greeting, answer): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(|span| span.begin < ms(3_900));
    assert!(!answer.is_empty(), "interrupted, then a new answer: {greeting:?}");
    let truly: Duration = greeting.iter().map(|span| span.length()).sum();
    assert!(truly.abs_diff(told) <= ms(100 + 50 * greeting.len() as u64), "told {told:?}: {greeting:?}");
    let greeting = server.of(1, |seen| seen.wishes[0].clone());
    assert!(greeting.as_ref().is_some_and(|words| words.contains("Hello Ada")), "{greeting:?}");
    server.is_content();
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    assert!(offhook.metric("offhook_tokens_total").await > 0.0, "usage is recorded");
    let log = offhook.log();
    assert!(
        !log.contains("15550123") && !log.contains("Ada") && !log.contains("key-of-the-test"),
        "the log keeps secrets"
    );
}

async fn openai_ends_the_call_by_its_tool() {
    let scenario = Scenario { otherwise: Opening::Slow(ms(300)), ..Scenario::answers(ms(600)) };
    let (server, asterisk, offhook) = openai_pbx(scenario, "").await;
    let says = silence(ms(2_000)) + tone(CALLER_HZ, ms(600)) + silence(ms(60_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
    server.until("a session is asked for", |sessions| sessions.len() == 1).await;
    // The greeting, which is still to come, may call no tools; the answer may.
    let call = Call { id: "call_0000000000000001".into(), name: "hangup_call".into(), arguments: json!({}) };
    server.order(1, Order::CallNext(vec![call]));
    phone.wait_ended(SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    assert!(phone.heard().time_of(AGENT_HZ) >= ms(500), "the goodbye was heard");
    assert_eq!(server.of(1, |seen| seen.turns_ended), 1, "the greeting called no tool");
    server.is_content();
}

async fn whatever_the_provider_does_the_caller_hears_a_sentence_and_a_human() {
    let faults = [
        ("agent_unauthorized", Opening::Refuse(401)),
        ("agent_not_found", Opening::Refuse(404)),
        ("agent_unreachable", Opening::Refuse(500)),
        ("agent_handshake", Opening::CloseAtOnce(1011)),
        ("agent_handshake", Opening::Silent),
        ("agent_handshake", Opening::OtherFormats),
    ];
    for (reason, opening) in faults {
        let (server, asterisk, offhook) = openai_pbx(Scenario::all(opening.clone()), ALONE).await;
        let mut phone = dial(&asterisk).await;
        phone.wait_to_hear(DESK_HZ, ms(300), Duration::from_secs(40)).await;
        phone.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, reason, "{opening:?}");
        assert!(server.sessions() <= 3, "{opening:?}: {} attempts", server.sessions());
        let heard = phone.heard();
        let desk = heard.spans_of(DESK_HZ)[0].begin;
        let apology: Duration = heard.part(ms(0)..desk).loud_spans().iter().map(|span| span.length()).sum();
        assert!(apology >= ms(1_500), "{opening:?}: {apology:?} of the apology");
        asterisk.wait_empty(SOON).await;
    }
}

/// Which address is wrong is seen without the log.
async fn the_http_status_of_a_refusal_is_in_record_page_and_log() {
    const TOKEN: &str = "a token for programs";
    let server = Vendor::start::<OpenAi>(Scenario::all(Opening::Refuse(404))).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let agents = openai(&server, "rtp/ulaw", ALONE);
    let yaml = format!("{}records: {{ directory: records }}\n{agents}", place.yaml_with(&asterisk, TOKEN));
    let mut offhook = Offhook::start(place, &yaml).await;
    offhook.ask_with(TOKEN);
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    let ended = offhook.wait_ended(1, SOON).await;
    let id = ended[0]["id"].as_str().expect("an id");
    let is_there = |record: &Value| record["reason"]["label"] == "agent_not_found";
    let record = offhook.wait_answer(&format!("api/v1/calls/{id}"), is_there, SOON).await;
    let told: Vec<_> = record["entries"].as_array().expect("a list").iter().collect();
    let refused = told.iter().find(|entry| entry["event"] == "provider_refused").expect("it is told");
    assert_eq!((&refused["provider"], &refused["status"]), (&json!("ai"), &json!(404)));
    let (_, page) = offhook.page(&format!("history/{id}")).await;
    assert!(page.contains("ai refuses with HTTP status 404."), "{page}");
    offhook.wait_logged("loss=\"not_found\" status=404").await;
}

async fn a_provider_that_dies_in_mid_call_costs_the_caller_no_word_of_what_it_said() {
    let scenario = Scenario { pace: f64::INFINITY, ..Scenario::answers(ms(4_000)) };
    let (server, asterisk, offhook) = openai_pbx(scenario, ALONE).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    server.order(1, Order::Drop);
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    assert!(phone.heard().time_of(AGENT_HZ) >= ms(3_800), "what had arrived is heard to its end");
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_closed");
}

crate::scenes! {
    real:
        a_wrong_password_is_said_on_the_ready_page_and_tried_again_in_peace,
        an_asterisk_that_comes_later_or_comes_again_finds_the_engine_waiting;
    both:
        an_rtp_call_whose_asterisk_died_ends_when_asterisk_is_back,
        openai_greets_is_interrupted_is_told_what_was_heard_and_answers,
        openai_is_told_that_what_waited_in_asterisk_was_not_heard,
        openai_is_told_what_was_heard_over_the_other_legs_as_well,
        openai_ends_the_call_by_its_tool,
        whatever_the_provider_does_the_caller_hears_a_sentence_and_a_human,
        the_http_status_of_a_refusal_is_in_record_page_and_log,
        a_provider_that_dies_in_mid_call_costs_the_caller_no_word_of_what_it_said;
    // A process is killed.
    only_real:
        a_caller_left_by_an_engine_that_died_goes_to_a_human_when_the_next_one_comes;
}
