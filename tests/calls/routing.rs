//! Which agent takes a call, and what becomes of calls that none takes. The extensions are those of
//! `dialplan/`.

use crate::calls::{
    AGENT_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::silence,
        offhook::{Offhook, Place},
        phone::Phone,
    },
    ms, pbx,
};

/// An installation as `dialplan/extensions_offhook.conf` supposes it: contexts `support` and `sales`,
/// a second provider called `scripted`. Each says its own tone.
const TWO_AGENTS: &str = "
default_context: front
providers:
  low: { scripted: { script: [{ tone: { hertz: 440, for: 60s } }] } }
  middle: { scripted: { script: [{ tone: { hertz: 600, for: 60s } }] } }
  scripted: { scripted: { script: [{ tone: { hertz: 800, for: 60s } }] } }
  words: { scripted: { script: [{ say: A } , { listen: {} }] } }
contexts:
  front: { prompt: Front, provider: low }
  support: { prompt: Support, provider: middle, audiosocket_id: \"0ff40001\" }
  sales: { prompt: Sales, provider: words, greeting: Hello, audio: rtp/alaw }
";

async fn two_agents() -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, TWO_AGENTS).await;
    asterisk.set_global("OFFHOOK_AUDIOSOCKET", &offhook.audiosocket()).await;
    (asterisk, offhook)
}

async fn dial(asterisk: &Asterisk, extension: &str) -> Phone {
    Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await
}

async fn the_dialplan_chooses_the_agent() {
    let (asterisk, offhook) = two_agents().await;
    // By default, by argument, by AI_PROVIDER for this call, over AudioSocket() without ARI.
    for (calls, (extension, hertz, context)) in [
        ("7000", AGENT_HZ, "front"),
        ("7001", 600.0, "support"),
        ("7004", 800.0, "support"),
        ("7080", 600.0, "support"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut phone = dial(&asterisk, extension).await;
        phone.wait_to_hear(hertz, ms(500), SOON).await;
        phone.hang_up().await;
        let ended = offhook.wait_ended(calls + 1, SOON).await;
        assert_eq!(ended[0]["context"], context, "{extension}");
        assert_eq!(ended[0]["reason"]["label"], "caller_hung_up", "{extension}");
    }
    asterisk.wait_empty(SOON).await;
}

async fn a_context_by_variable_and_a_greeting_and_an_audio_path_of_its_own() {
    let (asterisk, offhook) = two_agents().await;
    let mut sales = dial(&asterisk, "7002").await;
    sales.wait_to_hear(AGENT_HZ, ms(100), SOON).await;
    assert_eq!(offhook.metric("offhook_media_frames_sent_total{transport=\"audiosocket\"}").await, 0.0);
    assert!(offhook.metric("offhook_media_frames_sent_total{transport=\"rtp\"}").await > 0.0);
    sales.hang_up().await;
    assert_eq!(offhook.wait_ended(1, SOON).await[0]["context"], "sales");
}

async fn nobody_to_take_the_call_is_a_human_taking_it() {
    let asterisk = Asterisk::start(Options::default()).await;
    let agents = "
providers: { low: { scripted: { script: [{ tone: { hertz: 440, for: 60s } }] } } }
contexts: { other: { prompt: Other, provider: low } }
";
    let offhook = Offhook::attached(&asterisk, agents).await;
    // No such context and no default.
    let mut phone = dial(&asterisk, "7002").await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    offhook.metric_is("offhook_context_unknown_total", 1.0).await;
    offhook.metric_is("offhook_calls_declined_total{status=\"nocontext\"}", 1.0).await;
    assert!(asterisk.log().contains("NOCONTEXT"), "{}", asterisk.log());
    assert_eq!(offhook.metric("offhook_calls_total").await, 0.0);
    asterisk.wait_empty(SOON).await;
}

async fn an_unknown_context_is_taken_by_the_default_and_said_in_log_and_metric() {
    let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
    let mut phone = dial(&asterisk, "7002").await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    offhook.metric_is("offhook_context_unknown_total", 1.0).await;
    offhook.wait_logged("AI_CONTEXT").await;
}

async fn the_call_beyond_the_limit_goes_to_a_human() {
    let asterisk = Asterisk::start(Options::default()).await;
    let agents = format!("limits: {{ calls: 1 }}\n{}", agent("- tone: { hertz: 440, for: 60s }", ""));
    let offhook = Offhook::attached(&asterisk, &agents).await;
    let mut first = dial(&asterisk, "7000").await;
    first.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    let mut second = dial(&asterisk, "7000").await;
    second.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    offhook.metric_is("offhook_calls_declined_total{status=\"full\"}", 1.0).await;
    first.hang_up().await;
    second.hang_up().await;
}

async fn a_draining_engine_finishes_its_calls_and_takes_no_new_one() {
    let (asterisk, mut offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
    let mut running = dial(&asterisk, "7000").await;
    running.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    offhook.wait_ready(false).await;
    let mut late = dial(&asterisk, "7000").await;
    late.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    running.wait_to_hear(AGENT_HZ, ms(1500), SOON).await;
    running.hang_up().await;
    assert!(offhook.wait_exit(SOON).await.success());
    late.hang_up().await;
    asterisk.wait_empty(SOON).await;
}

async fn a_drain_that_takes_too_long_ends_the_calls_that_are_left() {
    let asterisk = Asterisk::start(Options::default()).await;
    let agents = format!("limits: {{ drain: 1s }}\n{}", agent("- tone: { hertz: 440, for: 60s }", ""));
    let mut offhook = Offhook::attached(&asterisk, &agents).await;
    let mut phone = dial(&asterisk, "7000").await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    phone.wait_ended(SOON).await;
    assert!(offhook.wait_exit(SOON).await.success());
    offhook.wait_logged("operator_ended").await;
    asterisk.wait_empty(SOON).await;
}

async fn a_second_signal_ends_running_calls_at_once() {
    let (asterisk, mut offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
    let mut phone = dial(&asterisk, "7000").await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    offhook.signal("TERM").await;
    offhook.wait_ready(false).await;
    offhook.signal("TERM").await;
    phone.wait_ended(SOON).await;
    assert!(offhook.wait_exit(SOON).await.success());
    asterisk.wait_empty(SOON).await;
}

async fn a_reload_serves_new_calls_and_running_ones_keep_what_they_began_with() {
    let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", "").await;
    let mut before = dial(&asterisk, "7000").await;
    before.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    let config = offhook.read_config();

    offhook.write_config(&config.replace("hertz: 440", "hertz: 440, loud: yes"));
    let (status, body) = offhook.post("reload").await;
    assert_eq!(status, 422, "{body}");
    assert!(body.contains("loud"), "the answer says what is wrong: {body}");

    offhook.write_config(&config.replace("hertz: 440", "hertz: 600"));
    offhook.signal("HUP").await;
    offhook.wait_metric("offhook_reloads_total{outcome=\"loaded\"}", 1.0, SOON).await;
    let mut after = dial(&asterisk, "7000").await;
    after.wait_to_hear(600.0, ms(300), SOON).await;
    before.wait_to_hear(AGENT_HZ, ms(1500), SOON).await;
    before.hang_up().await;
    after.hang_up().await;
    assert!(!before.heard().has(600.0));
}

async fn the_freepbx_example_works_as_it_stands() {
    let (asterisk, offhook) = two_agents().await;
    let mut phone = dial(&asterisk, "7100").await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    offhook.wait_ended(1, SOON).await;
}

async fn an_audiosocket_caller_whose_agent_is_lost_gets_a_human_too() {
    let place = Place::free();
    let audiosocket = Some(format!("127.0.0.1:{}", place.audiosocket));
    let asterisk = Asterisk::start(Options { audiosocket, ..Options::default() }).await;
    let script = "- tone: { hertz: 440, for: 2s }\n- pause: 500ms\n- close: 1011";
    let alone = "    limits: { recovery: { attempts: 0 } }\n";
    let yaml =
        format!("{}{}", place.yaml(None), agent(script, alone).replace("[hangup_call, transfer]", "[hangup_call]"));
    let offhook = Offhook::start(place, &yaml).await;
    for extension in ["7080", "7180"] {
        let mut phone = dial(&asterisk, extension).await;
        phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
        phone.hang_up().await;
    }
    let ended = offhook.wait_ended(2, SOON).await;
    assert!(ended.iter().all(|call| call["reason"]["label"] == "agent_closed"), "{ended:?}");
    asterisk.wait_empty(SOON).await;
}

async fn without_ari_calls_come_by_audiosocket_alone() {
    let place = Place::free();
    let asterisk = Asterisk::start(Options {
        audiosocket: Some(format!("127.0.0.1:{}", place.audiosocket)),
        ..Options::default()
    })
    .await;
    let script = "- tone: { hertz: 440, for: 1s }\n- listen: {}\n- hang_up: Goodbye";
    let yaml = format!("{}{}", place.yaml(None), agent(script, "").replace("[hangup_call, transfer]", "[hangup_call]"));
    let offhook = Offhook::start(place, &yaml).await;
    let says =
        silence(ms(2000)) + crate::calls::kit::audio::tone(crate::calls::CALLER_HZ, ms(500)) + silence(ms(60_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7080", says).await;
    phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
    phone.wait_ended(SOON).await;
    assert!(!phone.heard().has(DESK_HZ), "a finished conversation needs no human");
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    asterisk.wait_empty(SOON).await;
}

/// A mailbox that is not there is the human as well.
async fn a_human_is_behind_the_places_where_the_agents_of_the_freepbx_example_send_callers() {
    let dialplan = "[lab-callers](+)\nexten => reception,1,Goto(offhook-freepbx-transfer,reception,1)\n\
                    exten => message,1,Set(OFFHOOK_MAILBOX=nobody@default)\n same => n,Goto(offhook-freepbx-voicemail,s,1)\n";
    let asterisk = Asterisk::start(Options { dialplan: dialplan.into(), ..Options::default() }).await;
    for extension in ["reception", "message"] {
        let mut phone = dial(&asterisk, extension).await;
        phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
        phone.hang_up().await;
        asterisk.wait_empty(SOON).await;
    }
}

crate::scenes! {
    real:
        a_human_is_behind_the_places_where_the_agents_of_the_freepbx_example_send_callers,
        the_dialplan_chooses_the_agent,
        a_draining_engine_finishes_its_calls_and_takes_no_new_one,
        a_reload_serves_new_calls_and_running_ones_keep_what_they_began_with,
        the_freepbx_example_works_as_it_stands;
    both:
        an_audiosocket_caller_whose_agent_is_lost_gets_a_human_too,
        a_context_by_variable_and_a_greeting_and_an_audio_path_of_its_own,
        nobody_to_take_the_call_is_a_human_taking_it,
        an_unknown_context_is_taken_by_the_default_and_said_in_log_and_metric,
        the_call_beyond_the_limit_goes_to_a_human,
        a_drain_that_takes_too_long_ends_the_calls_that_are_left,
        a_second_signal_ends_running_calls_at_once,
        without_ari_calls_come_by_audiosocket_alone;
}
