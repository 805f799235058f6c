//! Calls whose audio goes by WebSocket: what is different there. `audio.rs` has what every leg does.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, DESK_HZ, Options},
        audio::{longest_gap, silence, tone},
        offhook::{Offhook, Place},
        phone::{Phone, Wide},
        proxy::{Beginning, Carries, Flow, Proxy},
    },
    ms, pbx,
    repairs::REPAIRED,
};

const AUDIO: &str = "    audio: websocket/slin16\n";
const AGENT_FOR_A_MINUTE: &str = "- tone: { hertz: 440, for: 60s }";
const DISCARDED: &str = "offhook_media_discarded_total";

async fn dial(asterisk: &Asterisk) -> Phone {
    Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await
}

/// Nothing of any call is left, on either side.
async fn assert_clean(asterisk: &Asterisk, offhook: &Offhook) {
    asterisk.wait_empty(SOON).await;
    offhook.wait_active(0, SOON).await;
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0);
}

/// The agent echoes: whoever hears a caller over it would have it pause.
const OPUS: &str = "    audio: websocket/opus\n    turns: { owner: provider }\n";
const SPOKEN: &str = "offhook_media_opus_legs_total{outcome=\"spoken\"}";
const NOT_SPOKEN: &str = "offhook_media_opus_legs_total{outcome=\"not_spoken\"}";

/// Formats of Asterisk's media channel, in its own words.
async fn media_format(asterisk: &Asterisk) -> String {
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|channel| channel.starts_with("WebSocket/")).expect("a media channel");
    let shown = asterisk.cli(&format!("core show channel {media}")).await;
    let formats = shown.lines().find_map(|line| line.trim().strip_prefix("NativeFormats:")).expect("its formats");
    formats.trim().to_owned()
}

/// T20: not translated anywhere, since this Asterisk has no Opus of its own.
async fn a_caller_who_speaks_opus_and_the_agent_hear_each_other() {
    let script = "- tone: { hertz: 440, for: 1s }\n- echo: 20s";
    let (asterisk, offhook) = pbx(script, OPUS).await;
    assert!(!asterisk.cli("module show like codec_opus").await.contains("Running"));
    // In the sounds of such a phone everything is twice as slow and half as high.
    let says = silence(ms(5_000)) + tone(CALLER_HZ / 2.0, ms(2_000)) + silence(ms(40_000));
    let mut phone = Phone::call_wide(asterisk.sip_port(), "7000", says, Wide::Opus).await;
    for hz in [AGENT_HZ, CALLER_HZ] {
        phone.wait_to_hear(hz / 2.0, ms(1_800), SOON).await;
    }
    assert_eq!(media_format(&asterisk).await, "(opus)");
    phone.dtmf('5').await;
    offhook.wait_active_where(|call| call["counts"]["keys"] == 1, SOON).await;
    phone.hang_up().await;
    for hz in [AGENT_HZ, CALLER_HZ] {
        let length = phone.heard().time_of(hz / 2.0);
        assert!(length.abs_diff(ms(2_000)) <= ms(200), "{length:?} of {hz} Hz: all of it, and nothing twice");
    }
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    assert_eq!((offhook.metric(SPOKEN).await, offhook.metric(NOT_SPOKEN).await), (1.0, 0.0));
    let behind = offhook.metric("offhook_media_discarded_total{cause=\"behind\"}").await;
    offhook.metric_is(DISCARDED, behind).await;
    assert_eq!(offhook.metric("offhook_media_opus_packets_concealed_total").await, 0.0);
    assert_clean(&asterisk, &offhook).await;
}

/// T20: a caller whose telephone does not speak Opus.
async fn a_caller_without_opus_gets_samples_where_opus_is_configured() {
    let script = "- tone: { hertz: 440, for: 1s }\n- echo: 20s";
    let (asterisk, offhook) = pbx(script, OPUS).await;
    let says = silence(ms(2_500)) + tone(CALLER_HZ, ms(1_000)) + silence(ms(20_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
    for hz in [AGENT_HZ, CALLER_HZ] {
        phone.wait_to_hear(hz, ms(900), SOON).await;
    }
    assert_eq!(media_format(&asterisk).await, "(slin16)");
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    assert_eq!((offhook.metric(SPOKEN).await, offhook.metric(NOT_SPOKEN).await), (0.0, 1.0));
    offhook.wait_logged("this caller's phone speaks no Opus").await;
    assert_clean(&asterisk, &offhook).await;
}

async fn a_caller_is_transferred_and_the_leg_goes() {
    let script = "- tone: { hertz: 440, for: 600ms }\n- call: { tool: transfer, arguments: { destination: desk } }\n\
                  - listen: {}";
    let (asterisk, offhook) = pbx(script, AUDIO).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    let channels = asterisk.channels().await;
    assert!(channels.iter().all(|channel| !channel.starts_with("WebSocket/")), "{channels:?}");
    assert_eq!(offhook.metric("offhook_media_open").await, 0.0);
    phone.hang_up().await;
    assert_clean(&asterisk, &offhook).await;
}

async fn a_call_whose_asterisk_died_ends_at_once_and_the_next_one_is_fine() {
    let (mut asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, AUDIO).await;
    let phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    asterisk.kill().await;
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!(ended[0]["reason"]["class"], "asterisk");
    offhook.wait_ready(false).await;
    asterisk.start_again().await;
    offhook.wait_ready(true).await;
    let mut again = dial(&asterisk).await;
    again.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    again.hang_up().await;
    assert_clean(&asterisk, &offhook).await;
}

async fn of_an_engine_that_died_in_mid_call_asterisk_keeps_no_media_channel() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = format!("{}{}", place.yaml(Some(&asterisk)), agent(AGENT_FOR_A_MINUTE, AUDIO));
    let mut offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    offhook.signal("KILL").await;
    offhook.wait_exit(SOON).await;
    let until = tokio::time::Instant::now() + SOON;
    while asterisk.channels().await.iter().any(|channel| channel.starts_with("WebSocket/")) {
        assert!(tokio::time::Instant::now() < until, "its media channel is still there");
    }
    // The caller waits for the next engine, who sends them on.
    phone.hang_up().await;
}

/// T24: Asterisk keeps the burst that follows the stall; what is late is left out in the next silence.
async fn a_stall_of_the_engine_is_caught_up_with_in_the_next_silence() {
    let script = "- tone: { hertz: 440, for: 2s }\n- pause: 3s\n- tone: { hertz: 440, for: 60s }";
    let (asterisk, offhook) = pbx(script, AUDIO).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    // Stopped for less than what a call gives up: the frames of that time follow in one burst, and Asterisk keeps them.
    offhook.signal("STOP").await;
    tokio::time::sleep(ms(300)).await;
    offhook.signal("CONT").await;
    phone.wait_to_hear(AGENT_HZ, ms(2_300), SOON).await;
    let left_out = offhook.metric("offhook_media_discarded_total{cause=\"behind\"}").await;
    assert!(left_out >= 2.0, "{left_out} silent frames were left out");
    phone.hang_up().await;
    assert_clean(&asterisk, &offhook).await;
}

/// T24: FLUSH_MEDIA discards it; three stalls make most of a second wait.
async fn who_interrupts_does_not_hear_what_waits_in_asterisk() {
    let script = "- tone: { hertz: 440, for: 60s }\n- listen: {}\n- tone: { hertz: 900, for: 60s }";
    let (asterisk, offhook) = pbx(script, AUDIO).await;
    let mut phone = dial(&asterisk).await;
    for stalls in 1..=3 {
        phone.wait_to_hear(AGENT_HZ, ms(500) * stalls, SOON).await;
        offhook.signal("STOP").await;
        tokio::time::sleep(ms(300)).await;
        offhook.signal("CONT").await;
    }
    phone.wait_to_hear(AGENT_HZ, ms(2_500), SOON).await;
    // Making the sound takes a while; its first word is not on its way before.
    phone.say(tone(CALLER_HZ, ms(600))).await;
    let said = phone.heard().length();
    phone.wait_to_hear(900.0, ms(500), SOON).await;
    let stopped = phone.heard().spans_of(AGENT_HZ).last().expect("the agent spoke").end;
    assert!(stopped <= said + ms(600), "the agent was heard until {stopped:?}; the caller spoke at {said:?}");
    phone.hang_up().await;
    assert_clean(&asterisk, &offhook).await;
}

/// An agent whose audio goes by this leg, through a proxy that may say everything twenty times. Ten of its periods are one
/// frame, so that a frame that comes again goes on with the tone.
async fn repeated(leg: &str) -> (Asterisk, Proxy, Offhook) {
    beginning(leg, Beginning::Whole).await
}

/// The same, whose audio begins like this.
async fn beginning(leg: &str, beginning: Beginning) -> (Asterisk, Proxy, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::beginning(asterisk.http_port(), beginning).await;
    let place = Place::free();
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let agents = agent("- tone: { hertz: 500, for: 60s }", &format!("    audio: {leg}\n"));
    let offhook = Offhook::start(place, &format!("{yaml}{agents}")).await;
    offhook.wait_ready(true).await;
    (asterisk, proxy, offhook)
}

/// T24: Asterisk sends MEDIA_XOFF because its queue is full.
async fn what_waits_in_an_asterisk_that_can_take_no_more_is_thrown_away_and_the_agent_is_heard_on() {
    const HZ: f64 = 500.0;
    let (asterisk, proxy, offhook) = repeated("websocket/slin16").await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(HZ, ms(500), SOON).await;
    for _ in 0..2 {
        const THROWN_AWAY: &str = "offhook_media_discarded_total{cause=\"thrown_away\"}";
        let before = offhook.metric(THROWN_AWAY).await;
        proxy.order(Carries::Media, Flow::Repeats);
        offhook.wait_metric(THROWN_AWAY, before + 900.0, SOON).await;
        proxy.order(Carries::Media, Flow::Passes);
        // Asterisk takes more at once: frames leave, and none waits for long.
        let sent = offhook.metric("offhook_media_frames_sent_total{transport=\"websocket\"}").await;
        offhook.wait_metric("offhook_media_frames_sent_total{transport=\"websocket\"}", sent + 100.0, SOON).await;
    }
    assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
    let before = phone.heard().time_of(HZ);
    phone.wait_to_hear(HZ, before + ms(1_000), SOON).await;
    let said = phone.heard().length();
    phone.hang_up().await;
    let gap = longest_gap(&phone.heard(), HZ);
    assert!(gap <= ms(500), "{gap:?} until {said:?}");
    assert_clean(&asterisk, &offhook).await;
}

/// T24: Asterisk discards no packets of a codec that it passes through, so the path is replaced.
async fn an_asterisk_that_can_take_no_more_packets_of_opus_gets_another_path() {
    // In the sounds of such a phone everything is twice as slow and half as high.
    const HZ: f64 = 250.0;
    let (asterisk, proxy, offhook) = repeated("websocket/opus").await;
    let mut phone = Phone::call_wide(asterisk.sip_port(), "7000", silence(ms(60_000)), Wide::Opus).await;
    phone.wait_to_hear(HZ, ms(1_000), SOON).await;
    proxy.order(Carries::Media, Flow::Repeats);
    // The end of the connection or that of its channel is told first, as it happens.
    offhook.wait_metric("offhook_media_faults_total", 1.0, SOON).await;
    offhook.wait_metric(REPAIRED, 1.0, SOON).await;
    offhook.metric_is("offhook_media_discarded_total{cause=\"thrown_away\"}", 900.0).await;
    let before = phone.heard().time_of(HZ);
    phone.wait_to_hear(HZ, before + ms(2_000), SOON).await;
    phone.hang_up().await;
    let gap = longest_gap(&phone.heard(), HZ);
    assert!(gap <= ms(4_000), "{gap:?} of such a phone");
    offhook.metric_is("offhook_media_faults_total", 1.0).await;
    assert_clean(&asterisk, &offhook).await;
}

/// Text that no Asterisk says, in mid-audio.
async fn words_between_the_audio_that_mean_nothing_are_counted_and_nobody_hears_them() {
    const HZ: f64 = 500.0;
    const SAID: [(&str, &str); 6] = [
        ("unknown_kind", r#"{"event":"FROM_THE_FUTURE","queue_length":-1}"#),
        ("unknown_kind", r#"{"event":"MEDIA_START","channel_id":"another","format":"ulaw","optimal_frame_size":160}"#),
        ("malformed", "MEDIA_XOFF"),
        ("malformed", r#"{"event":"STATUS","queue_length":"many"}"#),
        ("malformed", ""),
        ("error_frame", r#"{"event":"ERROR","error_text":"it is not so"}"#),
    ];
    for leg in ["websocket/slin16", "websocket/ulaw"] {
        let (asterisk, proxy, offhook) = repeated(leg).await;
        let mut phone = dial(&asterisk).await;
        phone.wait_to_hear(HZ, ms(500), SOON).await;
        for (cause, said) in SAID {
            let counted = format!("{DISCARDED}{{cause=\"{cause}\"}}");
            let before = offhook.metric(&counted).await;
            proxy.order(Carries::Media, Flow::Says(said));
            offhook.wait_metric(&counted, before + 1.0, SOON).await;
        }
        let before = phone.heard().time_of(HZ);
        phone.wait_to_hear(HZ, before + ms(1_000), SOON).await;
        phone.hang_up().await;
        let gap = longest_gap(&phone.heard(), HZ);
        assert!(gap <= ms(60), "{leg}: {gap:?}");
        assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{}", offhook.log());
        assert_clean(&asterisk, &offhook).await;
    }
}

/// T22: MEDIA_XOFF without a MEDIA_XON, and a connection that closes meanwhile.
async fn an_asterisk_that_never_takes_audio_again_gets_another_path_within_two_seconds() {
    const HZ: f64 = 500.0;
    const XOFF: &str = r#"{"event":"MEDIA_XOFF"}"#;
    let (asterisk, proxy, offhook) = repeated("websocket/slin16").await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(HZ, ms(500), SOON).await;
    for (repairs, then) in [(1.0, None), (2.0, Some(Flow::Cut))] {
        proxy.order(Carries::Media, Flow::Says(XOFF));
        offhook.wait_metric("offhook_media_discarded_total{cause=\"peer_full\"}", 5.0 * repairs, SOON).await;
        then.into_iter().for_each(|flow| proxy.order(Carries::Media, flow));
        offhook.wait_metric(REPAIRED, repairs, SOON).await;
        let before = phone.heard().time_of(HZ);
        phone.wait_to_hear(HZ, before + ms(1_000), SOON).await;
    }
    phone.hang_up().await;
    let gap = longest_gap(&phone.heard(), HZ);
    assert!(gap <= ms(2_000), "{gap:?}");
    offhook.metric_is("offhook_media_faults_total", 2.0).await;
    assert_clean(&asterisk, &offhook).await;
}

/// T25: MEDIA_START that does not come, and a close in its place.
async fn a_caller_whose_audio_never_begins_goes_on_in_the_dialplan() {
    for how in [Beginning::Untold, Beginning::Closed] {
        let (asterisk, _proxy, offhook) = beginning("websocket/slin16", how).await;
        let mut phone = dial(&asterisk).await;
        phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
        phone.hang_up().await;
        let ended = offhook.wait_ended(1, SOON).await;
        assert_eq!(ended[0]["reason"]["label"], "setup_media_connect", "{how:?}: {ended:?}");
        assert_clean(&asterisk, &offhook).await;
    }
}

/// T26: it is not in the log either, after the end of the call.
async fn what_opens_a_call_s_audio_is_told_to_nobody() {
    let (asterisk, offhook) = pbx(AGENT_FOR_A_MINUTE, AUDIO).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|name| name.starts_with("WebSocket/")).expect("a media channel");
    let shown = asterisk.cli(&format!("core show channel {media}")).await;
    let id = shown.lines().find_map(|line| line.trim().strip_prefix("MEDIA_WEBSOCKET_CONNECTION_ID="));
    let id = id.expect("a variable of the channel").trim();
    assert!(id.len() >= 8, "{id}");
    for told in [offhook.log(), offhook.json("calls").await.to_string(), offhook.page("metrics").await.1] {
        assert!(!told.contains(id), "{told}");
    }
    phone.hang_up().await;
    assert_clean(&asterisk, &offhook).await;
    assert!(!offhook.log().contains(id));
}

async fn an_asterisk_without_the_module_lets_the_caller_go_on_in_the_dialplan() {
    let asterisk = Asterisk::start(Options { without: vec!["chan_websocket"], ..Options::default() }).await;
    let offhook = Offhook::attached(&asterisk, &agent(AGENT_FOR_A_MINUTE, AUDIO)).await;
    let mut phone = dial(&asterisk).await;
    phone.wait_to_hear(DESK_HZ, ms(300), SOON).await;
    phone.hang_up().await;
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!(ended[0]["reason"]["label"], "setup_media_channel", "{ended:?}");
    assert_clean(&asterisk, &offhook).await;
}

crate::scenes! {
    real:
        a_caller_who_speaks_opus_and_the_agent_hear_each_other,
        what_waits_in_an_asterisk_that_can_take_no_more_is_thrown_away_and_the_agent_is_heard_on,
        an_asterisk_without_the_module_lets_the_caller_go_on_in_the_dialplan;
    both:
        a_caller_without_opus_gets_samples_where_opus_is_configured,
        a_caller_is_transferred_and_the_leg_goes,
        a_call_whose_asterisk_died_ends_at_once_and_the_next_one_is_fine,
        an_asterisk_that_can_take_no_more_packets_of_opus_gets_another_path,
        words_between_the_audio_that_mean_nothing_are_counted_and_nobody_hears_them,
        an_asterisk_that_never_takes_audio_again_gets_another_path_within_two_seconds,
        a_caller_whose_audio_never_begins_goes_on_in_the_dialplan,
        what_opens_a_call_s_audio_is_told_to_nobody;
    // A process is killed, or stopped while Asterisk goes on.
    only_real:
        of_an_engine_that_died_in_mid_call_asterisk_keeps_no_media_channel,
        a_stall_of_the_engine_is_caught_up_with_in_the_next_silence,
        who_interrupts_does_not_hear_what_waits_in_asterisk;
}
