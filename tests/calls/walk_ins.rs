//! `AudioSocket()` in the dialplan, on the real Asterisk: what such a call can do without ARI's help,
//! and that the dialplan keeps the caller when offhook does not.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::{Phone, Wide},
        relay::{Order, Relay},
    },
    ms, openai, openai_agents,
    repairs::longest_gap,
};

/// A UUID that begins as no context's does.
const DIALPLAN: &str = "
[lab-callers](+)
exten => stranger,1,Answer()
 same => n,Set(ID=${UUID()})
 same => n,TryExec(AudioSocket(ffffffff${ID:8},${OFFHOOK_AUDIOSOCKET}))
 same => n,Set(GLOBAL(LAB_WENT_ON)=yes)
 same => n,Goto(lab-targets,desk,1)
exten => wide,1,Answer()
; The phone's packets flow when the channel is made: it waits for the first of them for 200 ms only.
 same => n,Wait(1)
 same => n,Set(ID=${UUID()})
 same => n,Dial(AudioSocket/${OFFHOOK_AUDIOSOCKET}/0ff40001${ID:8}/c(slin16))
 same => n,Hangup()
exten => _rate-.,1,Answer()
 same => n,Wait(1)
 same => n,Set(ID=${UUID()})
 same => n,Dial(AudioSocket/${OFFHOOK_AUDIOSOCKET}/0ff40001${ID:8}/c(${EXTEN:5}))
 same => n,Hangup()
";

/// An engine and an Asterisk that know each other by AudioSocket.
async fn installation(agents: &str) -> (Asterisk, Offhook) {
    let place = Place::free();
    let audiosocket = Some(format!("127.0.0.1:{}", place.audiosocket));
    let asterisk = Asterisk::start(Options { audiosocket, dialplan: DIALPLAN.into(), ..Options::default() }).await;
    let yaml = format!("{}{agents}", place.yaml(Some(&asterisk)));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    (asterisk, offhook)
}

/// `AudioSocket()` speaks 8 kHz; as a channel that is dialled it speaks what it is asked for, and its first audio tells that.
async fn a_caller_whom_the_dialplan_dials_to_a_wideband_channel_and_the_agent_hear_each_other_wideband() {
    // In sounds of a wideband phone a second takes two, and everything is half as high: 6 kHz.
    const HIGH_HZ: f64 = 3_000.0;
    // Twice what is waited for: a busy machine makes gaps.
    let script = "- tone: { hertz: 440, for: 2s }\n- echo: 60s";
    let (asterisk, offhook) = installation(&agent(script, "    turns: { owner: provider }\n")).await;
    let says = silence(ms(6_000)) + tone(HIGH_HZ, ms(12_000));
    let mut phone = Phone::call_wide(asterisk.sip_port(), "wide", says, Wide::G722).await;
    phone.wait_to_hear(AGENT_HZ / 2.0, ms(1_800), SOON).await;
    let log = offhook.log();
    let began = log.lines().find(|line| line.contains("call began")).expect("a call");
    assert!(began.contains("slin16"), "{began}");
    phone.wait_to_hear(HIGH_HZ, ms(4_000), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

/// T23: the rates of AudioSocket without a row in the page. What is sent is of the rate that is written beside it.
async fn a_caller_whom_the_dialplan_dials_to_a_channel_of_another_rate_and_the_agent_hear_each_other() {
    let script = "- tone: { hertz: 440, for: 1s }\n- echo: 60s";
    let (asterisk, offhook) = installation(&agent(script, "    turns: { owner: provider }\n")).await;
    let rates = ["slin12 slin", "slin32 slin24", "slin44 slin24", "slin96 slin48", "slin192 slin48"];
    for (calls, rates) in rates.into_iter().enumerate() {
        let (asked, leg) = rates.split_once(' ').expect("two");
        let says = silence(ms(2_000)) + tone(CALLER_HZ, ms(10_000));
        let mut phone = Phone::call(asterisk.sip_port(), &format!("rate-{asked}"), says).await;
        phone.wait_to_hear(AGENT_HZ, ms(700), SOON).await;
        phone.wait_to_hear(CALLER_HZ, ms(2_000), SOON).await;
        phone.hang_up().await;
        let gap = longest_gap(&phone.heard(), CALLER_HZ);
        assert!(gap <= ms(100), "{asked}: {gap:?}");
        offhook.wait_ended(calls + 1, SOON).await;
        let log = offhook.log();
        let began = log.lines().rfind(|line| line.contains("call began")).expect("a call");
        assert!(began.ends_with(leg) || began.contains(&format!("{leg} ")), "{asked}: {began}");
        assert_eq!(offhook.metric("offhook_media_discarded_total").await, 0.0, "{asked}: {log}");
        asterisk.wait_empty(SOON).await;
    }
}

/// T23: the column *path ends*. The engine cannot tell either end from a caller who hangs up.
async fn the_dialplan_goes_on_with_a_caller_whose_connection_closes_and_the_examples_let_go_of_one_whose_is_reset() {
    for extension in ["7080", "7180"] {
        let place = Place::free();
        let relay = Relay::start(place.audiosocket).await;
        let audiosocket = Some(format!("127.0.0.1:{}", relay.port));
        let asterisk = Asterisk::start(Options { audiosocket, ..Options::default() }).await;
        let yaml = format!("{}{}", place.yaml(Some(&asterisk)), agent("- tone: { hertz: 440, for: 60s }", ""));
        let offhook = Offhook::start(place, &yaml).await;
        offhook.wait_ready(true).await;
        for (calls, order) in [Order::Close, Order::Reset].into_iter().enumerate() {
            let mut phone = dial(&asterisk, extension).await;
            // Who loses their agent in the first two seconds goes to a human: nobody was there.
            phone.wait_to_hear(AGENT_HZ, ms(2_500), SOON).await;
            relay.order(order);
            match order {
                Order::Close => {
                    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
                    phone.hang_up().await;
                }
                _ => {
                    phone.wait_ended(SOON).await;
                    assert!(!phone.heard().has(DESK_HZ), "{extension}");
                }
            }
            let ended = offhook.wait_ended(calls + 1, SOON).await;
            assert_eq!(ended[0]["reason"]["label"], "caller_hung_up", "{extension}, {order:?}");
            asterisk.wait_empty(SOON).await;
        }
        assert_eq!(offhook.metric("offhook_media_open").await, 0.0, "{extension}");
    }
}

/// T22: such a path is listened to as any other, though there is no other one for it.
async fn what_is_uneven_about_the_audio_of_a_walk_in_is_told_as_of_any_call() {
    const JITTER: &str = "offhook_media_jitter_seconds_sum";
    let place = Place::free();
    let relay = Relay::start(place.audiosocket).await;
    let audiosocket = Some(format!("127.0.0.1:{}", relay.port));
    let asterisk = Asterisk::start(Options { audiosocket, ..Options::default() }).await;
    let agents = agent("- tone: { hertz: 440, for: 60s }", "");
    let yaml = format!("{}{agents}", place.yaml(Some(&asterisk)));
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk, "7080").await;
    phone.wait_to_hear(AGENT_HZ, ms(2_500), SOON).await;
    let even = offhook.metric(JITTER).await;
    relay.order(Order::Bunch);
    offhook.wait_metric(JITTER, even + 0.040, SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn dial(asterisk: &Asterisk, extension: &str) -> Phone {
    Phone::call(asterisk.sip_port(), extension, silence(ms(60_000))).await
}

async fn what_needs_ari_is_not_shown_to_the_agent_and_the_log_says_so() {
    let server = openai(ms(4_000)).await;
    let (asterisk, offhook) = installation(&openai_agents(&server)).await;
    let shown = |session: usize| {
        let tools = server.told(session)[0]["session"]["tools"].as_array().expect("a list of tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    for (calls, extension) in ["7001", "7080"].into_iter().enumerate() {
        let mut phone = dial(&asterisk, extension).await;
        phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
        phone.hang_up().await;
        offhook.wait_ended(calls + 1, SOON).await;
    }
    assert_eq!(shown(1), ["hangup_call", "transfer"], "by ARI");
    assert_eq!(shown(2), ["hangup_call"], "by AudioSocket()");
    let log = offhook.log();
    let said: Vec<_> = log.lines().filter(|line| line.contains("INFO") && line.contains("transfer")).collect();
    assert_eq!(said.len(), 1, "once, for the second call: {log}");
    assert!(said[0].contains("ARI"), "{}", said[0]);
    server.is_content();
}

async fn a_uuid_that_no_context_knows_is_hung_up_on_and_the_dialplan_goes_on() {
    let (asterisk, offhook) = installation(&agent("- tone: { hertz: 440, for: 60s }", "")).await;
    let mut phone = dial(&asterisk, "stranger").await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    assert_eq!(asterisk.wait_global("LAB_WENT_ON", SOON).await, "yes");
    offhook.metric_is("offhook_context_unknown_total", 1.0).await;
    offhook.metric_is("offhook_calls_declined_total{status=\"nocontext\"}", 1.0).await;
    assert_eq!(offhook.metric("offhook_calls_total").await, 0.0);
    offhook.wait_logged("audiosocket_id").await;
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0);
}

async fn the_caller_beyond_the_limit_goes_to_a_human() {
    let (asterisk, offhook) =
        installation(&format!("limits: {{ calls: 1 }}\n{}", agent("- tone: { hertz: 440, for: 60s }", ""))).await;
    let mut first = dial(&asterisk, "7080").await;
    first.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    // By both examples of a dialplan.
    for extension in ["7080", "7180"] {
        let mut second = dial(&asterisk, extension).await;
        second.wait_to_hear(DESK_HZ, ms(300), SOON).await;
        assert!(!second.heard().has(AGENT_HZ), "{extension}: it was with the agent");
        second.hang_up().await;
    }
    offhook.metric_is("offhook_calls_declined_total{status=\"full\"}", 2.0).await;
    // The first one is not disturbed.
    first.wait_to_hear(AGENT_HZ, ms(1_500), SOON).await;
    assert!(!first.heard().has(DESK_HZ));
    first.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    asterisk.wait_empty(SOON).await;
}

async fn a_goodbye_is_the_end_of_the_call_and_no_human_is_called() {
    let script = "- tone: { hertz: 440, for: 2500ms }\n- hang_up: Goodbye";
    let (asterisk, offhook) = installation(&agent(script, "")).await;
    let mut phone = dial(&asterisk, "7080").await;
    phone.wait_to_hear(AGENT_HZ, ms(2_400), SOON).await;
    phone.wait_ended(SOON).await;
    assert!(!phone.heard().has(DESK_HZ), "{:?}", phone.heard().loud_spans());
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    asterisk.wait_empty(SOON).await;
}

crate::scenes! {
    real:
        a_caller_whom_the_dialplan_dials_to_a_wideband_channel_and_the_agent_hear_each_other_wideband;
    both:
        a_caller_whom_the_dialplan_dials_to_a_channel_of_another_rate_and_the_agent_hear_each_other,
        the_dialplan_goes_on_with_a_caller_whose_connection_closes_and_the_examples_let_go_of_one_whose_is_reset,
        what_is_uneven_about_the_audio_of_a_walk_in_is_told_as_of_any_call,
        what_needs_ari_is_not_shown_to_the_agent_and_the_log_says_so,
        a_uuid_that_no_context_knows_is_hung_up_on_and_the_dialplan_goes_on,
        the_caller_beyond_the_limit_goes_to_a_human,
        a_goodbye_is_the_end_of_the_call_and_no_human_is_called;
}
