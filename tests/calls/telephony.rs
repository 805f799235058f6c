//! Callers who are connected with people by ringing them, sent to a mailbox, and keys pressed for them.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
        proxy::Proxy,
        seen,
        world::{self, World},
    },
    ms,
};

use std::{sync::Arc, time::Duration};

/// The ringing tone of most of Europe, which offhook makes unless told otherwise.
const RINGING_HZ: f64 = 425.0;
/// What the agent says before it transfers.
const WORDS_HZ: f64 = 600.0;
/// What people who are called say.
const ANN_HZ: f64 = 1000.0;

/// An agent whose script says one thing and transfers to `there`, which rings these for so long.
fn transferring(endpoints: &[String], ring: &str) -> String {
    format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 600, for: 600ms }}\n        \
         - call: {{ tool: transfer, arguments: {{ destination: there }} }}\n        - listen: {{}}\n        \
         - tone: {{ hertz: 880, for: 60s }}\n\
         destinations:\n  there: {{ description: People, dial: [{}], ring: {ring} }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n",
        endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect::<Vec<_>>().join(", ")
    )
}

fn at(phone: &Phone) -> String {
    format!("PJSIP/anonymous/sip:phone@127.0.0.1:{}", phone.port())
}

/// Somebody who answers at once, and says this tone for as long as they are listened to.
async fn ann() -> Phone {
    Phone::listen(tone(ANN_HZ, ms(60_000))).await
}

async fn pbx(endpoints: &[String], ring: &str) -> (Asterisk, Offhook) {
    pbx_with(endpoints, ring, "").await
}

async fn pbx_with(endpoints: &[String], ring: &str, dialplan: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options { dialplan: dialplan.into(), ..Options::default() }).await;
    let offhook = Offhook::attached(&asterisk, &transferring(endpoints, ring)).await;
    (asterisk, offhook)
}

async fn caller(asterisk: &Asterisk) -> Phone {
    caller_who_speaks_after(asterisk, ms(6_500)).await
}

async fn caller_who_speaks_after(asterisk: &Asterisk, pause: Duration) -> Phone {
    let says = silence(pause) + tone(CALLER_HZ, ms(2_000)) + silence(ms(60_000));
    Phone::call_as(asterisk.sip_port(), "7000", says, "Ada Byron", "15550199").await
}

/// What offhook has open for calls.
async fn open(offhook: &Offhook) -> f64 {
    offhook.metric("offhook_media_open").await + offhook.metric("offhook_calls_active").await
}

async fn a_dialled_person_is_connected_with_the_caller_and_offhook_leaves() {
    let mut ann = ann().await;
    let (asterisk, offhook) = pbx(&[at(&ann)], "10s").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    // offhook is out of it: one bridge with two people in it is all there is.
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    assert_eq!(open(&offhook).await, 0.0);
    let channels = asterisk.channels().await;
    assert_eq!(channels.len(), 2, "{channels:?}");
    assert_eq!(asterisk.bridges().await, 1);
    offhook.metric_is("offhook_ari_handed_on", 1.0).await;
    // Each hears the other.
    ann.wait_to_hear(CALLER_HZ, ms(1000), SOON).await;
    caller.wait_to_hear(ANN_HZ, ms(2000), SOON).await;
    // The caller's own name and number were shown.
    assert_eq!(ann.seen().peer, ("Ada Byron".into(), "sip:15550199@127.0.0.1".into()));
    // A reload changes nothing for them.
    assert_eq!(offhook.post("reload").await.0, 200);
    caller.wait_to_hear(ANN_HZ, ms(3000), SOON).await;
    caller.hang_up().await;
    ann.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 0.0);
    let heard = caller.heard();
    let words = heard.spans_of(WORDS_HZ)[0];
    assert!(words.is_whole(ms(600)), "the agent's last words were heard: {words:?}");
    for private in ["15550199", "Byron"] {
        assert!(!offhook.log().contains(private), "{private} reached the log");
    }
}

async fn the_caller_hears_ringing_and_the_first_of_a_ring_group_to_answer_wins() {
    let (mut bob, ann) = (Phone::listen_without_answering().await, Local::answers_after_two_seconds());
    let (asterisk, offhook) = pbx_with(&[at(&bob), ann.endpoint], "10s", &ann.dialplan).await;
    let mut caller = caller(&asterisk).await;
    bob.wait_ringing(SOON).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    // Nobody else's telephone goes on ringing.
    bob.wait_ended(SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    caller.wait_to_hear(ANN_HZ, ms(2000), SOON).await;
    caller.hang_up().await;
    asterisk.wait_empty(SOON).await;
    let heard = caller.heard();
    let answered = heard.spans_of(ANN_HZ)[0].begin;
    let rang = heard.part(ms(0)..answered).time_of(RINGING_HZ);
    assert!(rang.abs_diff(ms(1000)) <= ms(120), "one ring of a second while two passed: {rang:?}");
    assert!(!heard.part(answered..heard.length()).has(RINGING_HZ), "and none after the answer");
}

/// Somebody in the dialplan.
struct Local {
    endpoint: String,
    dialplan: String,
}

impl Local {
    fn answers_after_two_seconds() -> Self {
        let dialplan = "[lab-late]\nexten => ann,1,Ringing()\n same => n,Wait(2)\n same => n,Answer()\n \
                        same => n,Playtones(1000)\n same => n,Wait(60)\n same => n,Hangup()\n";
        Self { endpoint: "Local/ann@lab-late".into(), dialplan: dialplan.into() }
    }
}

async fn an_extension_and_a_queue_of_the_dialplan_can_be_rung_and_see_who_calls() {
    let queue = "[queues]\nexten => 700,1,Queue(reception,r)\n same => n,Hangup()\n";
    for endpoint in ["Local/whoami@lab-targets", "Local/700@queues"] {
        let (asterisk, offhook) = pbx_with(&[endpoint.into()], "10s", queue).await;
        let mut caller = caller(&asterisk).await;
        caller.wait_to_hear(DESK_HZ, ms(2500), SOON).await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "transferred", "{endpoint}");
        offhook.metric_is("offhook_ari_handed_on", 1.0).await;
        if endpoint.contains("whoami") {
            assert_eq!(asterisk.wait_global("LAB_CALLER", SOON).await, "Ada Byron/15550199");
        }
        caller.hang_up().await;
        asterisk.wait_empty(SOON).await;
    }
}

async fn when_the_person_who_took_over_hangs_up_so_does_the_caller() {
    let mut ann = ann().await;
    let (asterisk, offhook) = pbx(&[at(&ann)], "10s").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(300), SOON).await;
    ann.hang_up().await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_ari_handed_on").await, 0.0);
}

/// The caller comes back to the agent, which is told why.
async fn nobody_takes(endpoint: String, why: &str) {
    // Time for Asterisk to name the fault: at the limit it becomes `no_answer` or `unreachable`.
    let ring = if why == "no_answer" { "4s" } else { "60s" };
    let (asterisk, offhook) = pbx(&[endpoint], ring).await;
    let mut caller = caller_who_speaks_after(&asterisk, ms(10_000)).await;
    // The script's agent beeps what it is asked to say, and hears the caller again after that.
    caller.wait_to_hear(AGENT_HZ, ms(1500), SOON).await;
    if why == "no_answer" {
        caller.wait_to_hear(880.0, ms(500), SOON).await;
    }
    offhook.wait_logged(&format!("reason=\"{why}\"")).await;
    let channels = asterisk.channels().await;
    assert_eq!(channels.len(), 2, "the caller and offhook: {channels:?}");
    caller.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn a_telephone_that_rings_in_vain_is_no_answer() {
    let bob = Phone::listen_without_answering().await;
    nobody_takes(at(&bob), "no_answer").await;
}

async fn a_busy_extension_is_told_as_such() {
    nobody_takes("Local/busy@lab-targets".into(), "busy").await;
}

async fn an_extension_that_declines_is_told_as_such() {
    nobody_takes("Local/declines@lab-targets".into(), "refused").await;
}

async fn a_telephone_that_is_not_there_is_unreachable() {
    nobody_takes("PJSIP/nobody".into(), "unreachable").await;
}

async fn an_extension_that_is_not_there_is_unreachable() {
    nobody_takes("Local/nowhere@lab-targets".into(), "unreachable").await;
}

async fn a_caller_who_hangs_up_while_it_rings_leaves_no_telephone_ringing() {
    let mut bob = Phone::listen_without_answering().await;
    let (asterisk, offhook) = pbx(&[at(&bob)], "60s").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(RINGING_HZ, ms(500), SOON).await;
    caller.hang_up().await;
    bob.wait_ended(ms(2_000)).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn people_who_are_connected_stay_so_when_offhook_stops_and_when_it_starts_again() {
    let mut ann = ann().await;
    let place = Place::free();
    let asterisk = Asterisk::start(Options::default()).await;
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), transferring(&[at(&ann)], "10s"));
    let mut offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    assert!(offhook.wait_exit(SOON).await.success());
    caller.wait_to_hear(ANN_HZ, ms(2000), SOON).await;
    // The next engine knows them by their bridge, and watches them from now on.
    let again = Offhook::attached(&asterisk, &transferring(&[at(&ann)], "10s")).await;
    again.metric_is("offhook_ari_handed_on", 1.0).await;
    caller.wait_to_hear(ANN_HZ, ms(3500), SOON).await;
    ann.hang_up().await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
}

async fn who_was_left_alone_while_offhook_was_away_is_let_go_when_it_comes_back() {
    let mut ann = ann().await;
    let (asterisk, mut offhook) = pbx(&[at(&ann)], "10s").await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(ANN_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    assert!(offhook.wait_exit(SOON).await.success());
    ann.hang_up().await;
    assert!(caller.seen().ended.is_none());
    let again = Offhook::attached(&asterisk, &transferring(&[at(&ann)], "10s")).await;
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(again.metric("offhook_ari_handed_on").await, 0.0);
}

/// An agent that does this and then listens.
fn agent(calls: &str, tools: &str, more: &str) -> String {
    format!(
        "default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 600, for: 600ms }}\n        \
         - call: {{ {calls} }}\n        - listen: {{}}\n        - tone: {{ hertz: 880, for: 60s }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [{tools}] }}\n{more}"
    )
}

const MAILBOXES: &str = "voicemail: { mailboxes: { office: { description: The office, mailbox: 100@default },
  closed: { description: Not there, mailbox: 999@default } } }\n";

async fn voicemail(mailbox: &str, more: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let calls = format!("tool: leave_voicemail, arguments: {{ mailbox: {mailbox} }}");
    let offhook = Offhook::attached(&asterisk, &agent(&calls, "leave_voicemail", more)).await;
    (asterisk, offhook)
}

async fn a_caller_leaves_a_message_in_a_mailbox() {
    let (asterisk, offhook) = voicemail("office", MAILBOXES).await;
    let mut caller = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    // The box speaks its greeting first, and then beeps. Two seconds of silence end the message, also at its beginning.
    caller.say(tone(CALLER_HZ, ms(60_000))).await;
    asterisk.wait_logged("Recording the message", SOON).await;
    caller.say(tone(CALLER_HZ, ms(2_500))).await;
    // Silence ends the message, and the dialplan the call.
    caller.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    assert!(caller.heard().time_of(WORDS_HZ) >= ms(500), "the agent's last words were heard");
    let messages = asterisk.voicemails("100");
    assert_eq!(messages.len(), 1, "one message");
    assert!(messages[0].time_of(CALLER_HZ) >= ms(1_500), "it is the caller's: {:?}", messages[0].loud_spans());
}

async fn a_mailbox_that_is_missing_is_a_human_and_a_missing_place_in_the_dialplan_is_the_agent() {
    let (asterisk, offhook) = voicemail("closed", MAILBOXES).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    caller.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    drop((asterisk, offhook));

    let elsewhere = MAILBOXES.replace("{ mailboxes", "{ context: not-there, mailboxes");
    let (asterisk, offhook) = voicemail("office", &elsewhere).await;
    let mut caller = self::caller(&asterisk).await;
    caller.wait_to_hear(AGENT_HZ, ms(1500), SOON).await;
    offhook.wait_active(1, SOON).await;
    caller.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
}

async fn keys_reach_the_far_end_in_order() {
    for leg in ["audiosocket/slin", "rtp/ulaw"] {
        let asterisk = Asterisk::start(Options::default()).await;
        let calls = "tool: send_dtmf, arguments: { digits: \"1w23*#\" }";
        let agents = agent(calls, "send_dtmf", "").replace("prompt: A test", &format!("prompt: A test, audio: {leg}"));
        let offhook = Offhook::attached(&asterisk, &agents).await;
        let mut caller = caller(&asterisk).await;
        caller.wait_keys("123*#", SOON).await;
        // The call goes on.
        caller.wait_to_hear(880.0, ms(500), SOON).await;
        caller.hang_up().await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

async fn a_farewell_is_heard_to_its_last_syllable_before_the_line_drops() {
    for leg in ["audiosocket/slin", "audiosocket/slin16", "rtp/ulaw", "rtp/alaw", "websocket/slin16"] {
        let asterisk = Asterisk::start(Options::default()).await;
        let agents = agent("tool: hangup_call", "hangup_call", "")
            .replace("prompt: A test", &format!("prompt: A test, audio: {leg}"))
            .replace("hertz: 600, for: 600ms", "hertz: 600, for: 3s");
        let offhook = Offhook::attached(&asterisk, &agents).await;
        let mut caller = caller(&asterisk).await;
        caller.wait_ended(SOON).await;
        assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up", "{leg}");
        let heard = caller.heard();
        let spans = heard.spans_of(WORDS_HZ);
        assert_eq!(spans.len(), 1, "{leg}: without a hole: {spans:?}");
        assert!(spans[0].is_whole(ms(3_000)), "{leg}: all three seconds: {spans:?}");
        asterisk.wait_empty(SOON).await;
    }
}

async fn an_agent_may_ask_whether_an_extension_is_free() {
    let asterisk = Asterisk::start(Options::default()).await;
    let extensions = "extensions: { allow: [\"1XX\"], device: \"Local/{extension}@lab-office\" }\n";
    for (extension, outcome) in [("100", "OK"), ("200", "NOT_FOUND")] {
        let calls = format!("tool: check_extension_status, arguments: {{ extension: \"{extension}\" }}");
        let agents = agent(&calls, "check_extension_status", extensions);
        let offhook = Offhook::attached(&asterisk, &agents).await;
        let mut caller = caller(&asterisk).await;
        caller.wait_to_hear(880.0, ms(300), SOON).await;
        let said = format!("tool=\"check_extension_status\" outcome=\"{outcome}\"");
        offhook.wait_logged(&said).await;
        caller.hang_up().await;
        asterisk.wait_empty(SOON).await;
    }
}

/// Asterisk's own words for the states of a device, as ARI tells them.
async fn what_asterisk_says_of_a_device_is_what_the_agent_is_told() {
    use offhook::{
        asterisk::{
            ari::{AriClient, AriCounters},
            extension_status::ExtensionStatus,
        },
        config::{AsteriskConfig, ExtensionsConfig},
        facts::{CallFacts, CallId},
        telemetry::Metrics,
        tool::{Admission, CallPolicy, Opening, PolicyRules, Tool, ToolCall, ToolCallId, ToolOutcome, Toolbox},
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dialplan = "[lab-office]\nexten => 100,1,Wait(60)\n";
    let asterisk = Asterisk::start(Options { dialplan: dialplan.into(), ..Options::default() }).await;
    let config = AsteriskConfig {
        url: asterisk.ari_url(),
        username: "offhook".into(),
        password: asterisk.ari_password().to_owned().into(),
        app: "offhook".into(),
        keeps_withheld_numbers: false,
    };
    let metrics = Metrics::new("test");
    let ari = AriClient::new(&config, AriCounters::new(metrics.registry()).unwrap()).unwrap();
    let facts = CallFacts::new(CallId::random(), "front", "test");
    let asked = async |device: &str| {
        let do_not_disturb = vec!["Custom:DND{extension}".into()];
        let extensions = ExtensionsConfig { allow: vec!["100".into()], device: device.into(), do_not_disturb };
        let tool: Arc<dyn Tool> = Arc::new(ExtensionStatus::new(ari.clone(), extensions));
        let toolbox = Toolbox::new([tool.clone()]).unwrap();
        let arguments = r#"{"extension":"100"}"#.to_owned();
        let call = ToolCall { id: "c".into(), name: "check_extension_status".into(), arguments };
        let began = (tokio::time::Instant::now().into_std(), jiff::Timestamp::now());
        let policy = Arc::new(PolicyRules::default());
        let mut policy = CallPolicy::new(Arc::new(toolbox), policy, Opening::default(), began);
        let Admission::Run { call, .. } = policy.admit(ToolCallId::random(), &call, began.0) else {
            panic!("admitted")
        };
        let ToolOutcome::Done(done) = tool.run(*call, &facts).await else { panic!("Asterisk answers") };
        done.data["status"].as_str().unwrap().to_owned()
    };
    let client = reqwest::Client::new();
    for (state, status) in [
        ("NOT_INUSE", "available"),
        ("INUSE", "in_use"),
        ("BUSY", "in_use"),
        ("ONHOLD", "in_use"),
        ("RINGING", "ringing"),
        ("RINGINUSE", "ringing"),
        ("UNAVAILABLE", "unavailable"),
        ("INVALID", "unavailable"),
    ] {
        let url = format!("{}/ari/deviceStates/Stasis:100?deviceState={state}", asterisk.ari_url());
        let put = client.put(url).basic_auth("offhook", Some(asterisk.ari_password())).send().await.unwrap();
        assert!(put.status().is_success(), "{state}: {}", put.status());
        assert_eq!(asked("Stasis:{extension}").await, status, "{state}");
    }
    // A telephone nobody has registered, an extension of the dialplan, and nothing at all.
    assert_eq!(asked("PJSIP/softphone").await, "unavailable");
    assert_eq!(asked("Local/{extension}@lab-office").await, "available");
    assert_eq!(asked("PJSIP/{extension}").await, "unavailable");
    // A kind of channel without states of devices, and without endpoints.
    assert_eq!(asked("AudioSocket/{extension}").await, "unknown");
    if world::current() == World::Real {
        seen::note(&metrics.text());
    }
}

/// A proxy makes the request one that Asterisk does not know. The emulated one would take that for a gap of its own.
async fn a_transfer_that_asterisk_refuses_leaves_the_caller_with_the_agent() {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::changing(asterisk.http_port(), "/continue", "/continua").await;
    let place = Place::free();
    let script = "- call: { tool: transfer, arguments: { destination: desk } }\n- listen: {}\n- tone: { hertz: 880, for: 1s }\n- echo: 60s";
    let yaml = format!("{}{}", place.yaml_of(Some((&proxy.url(), asterisk.ari_password()))), super::agent(script, ""));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut caller = caller(&asterisk).await;
    caller.wait_to_hear(880.0, ms(500), SOON).await;
    assert_eq!(offhook.metric(r#"offhook_ari_requests_total{operation="ring_stop"}"#).await, 1.0, "{}", offhook.log());
    caller.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    real:
        the_caller_hears_ringing_and_the_first_of_a_ring_group_to_answer_wins,
        an_extension_and_a_queue_of_the_dialplan_can_be_rung_and_see_who_calls,
        a_telephone_that_rings_in_vain_is_no_answer,
        a_busy_extension_is_told_as_such,
        an_extension_that_declines_is_told_as_such,
        a_telephone_that_is_not_there_is_unreachable,
        an_extension_that_is_not_there_is_unreachable,
        people_who_are_connected_stay_so_when_offhook_stops_and_when_it_starts_again,
        a_caller_leaves_a_message_in_a_mailbox,
        keys_reach_the_far_end_in_order,
        what_asterisk_says_of_a_device_is_what_the_agent_is_told;
    both:
        a_mailbox_that_is_missing_is_a_human_and_a_missing_place_in_the_dialplan_is_the_agent,
        a_dialled_person_is_connected_with_the_caller_and_offhook_leaves,
        when_the_person_who_took_over_hangs_up_so_does_the_caller,
        a_caller_who_hangs_up_while_it_rings_leaves_no_telephone_ringing,
        who_was_left_alone_while_offhook_was_away_is_let_go_when_it_comes_back,
        a_farewell_is_heard_to_its_last_syllable_before_the_line_drops,
        an_agent_may_ask_whether_an_extension_is_free;
    only_real:
        a_transfer_that_asterisk_refuses_leaves_the_caller_with_the_agent;
}
