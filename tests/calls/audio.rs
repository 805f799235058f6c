//! What caller and agent hear of each other, over every media leg. What is seen of each of them for the page is in `legs.rs`.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::{Phone, Wide},
        proxy::Proxy,
    },
    legs, ms, pbx,
};
use std::process::Stdio;
use tokio::process::Command;

/// Each of a media channel once. The phone speaks G.711: the leg of Opus falls back.
fn all_legs() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = legs::LEGS.map(|(leg, _)| leg).into();
    names.dedup();
    names.retain(|leg| *leg != legs::WALK_IN);
    names.into_iter()
}

/// V47: what the phone says in G.711 reaches the agent, and what the agent says the phone, over each leg, those of PCM of 8 kHz
/// among them.
async fn both_sides_hear_each_other_over_every_leg() {
    for leg in all_legs() {
        let script = "- tone: { hertz: 440, for: 1s }\n- echo: 20s";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n")).await;
        let says = silence(ms(2500)) + tone(CALLER_HZ, ms(1000)) + silence(ms(20_000));
        let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
        phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
        phone.wait_to_hear(CALLER_HZ, ms(900), SOON).await;
        phone.hang_up().await;
        let heard = phone.heard();
        let spans = heard.spans_of(AGENT_HZ);
        assert_eq!(spans.len(), 1, "{leg}: the agent's second of tone without a hole: {spans:?}");
        assert!(spans[0].is_whole(ms(1000)), "{leg}: {spans:?}");
        let spans = heard.spans_of(CALLER_HZ);
        assert_eq!(spans.len(), 1, "{leg}: the caller's own tone, through the agent and back: {spans:?}");
        assert!(spans[0].length() >= ms(900), "{leg}: {spans:?}");
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

/// V47: Asterisk is asked for G.722 instead of samples, by somebody between.
async fn an_asterisk_that_sends_g722_by_rtp_is_understood_wideband() {
    // In the sounds of such a phone a second takes two, and everything is half as high: 6 kHz.
    const HIGH_HZ: f64 = 3_000.0;
    let asterisk = Asterisk::start(Options::default()).await;
    let proxy = Proxy::changing(asterisk.http_port(), r#""format":"slin16""#, r#""format":"g722"  "#).await;
    let place = Place::free();
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let context = "    audio: rtp/slin16\n    turns: { owner: provider }\n";
    let agents = agent("- tone: { hertz: 440, for: 1s }\n- echo: 60s", context);
    let offhook = Offhook::start(place, &format!("{yaml}{agents}")).await;
    offhook.wait_ready(true).await;
    let says = silence(ms(4_000)) + tone(HIGH_HZ, ms(8_000));
    let mut phone = Phone::call_wide(asterisk.sip_port(), "7000", says, Wide::G722).await;
    phone.wait_to_hear(AGENT_HZ / 2.0, ms(1_800), SOON).await;
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|name| name.starts_with("UnicastRTP/")).expect("a media channel");
    let shown = asterisk.cli(&format!("core show channel {media}")).await;
    assert!(shown.lines().any(|line| line.contains("NativeFormats: (g722)")), "{shown}");
    phone.wait_to_hear(HIGH_HZ, ms(4_000), SOON).await;
    phone.hang_up().await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up");
    assert_eq!(offhook.metric("offhook_media_discarded_total").await, 0.0, "{}", offhook.log());
    asterisk.wait_empty(SOON).await;
}

/// T4: the time until silence is measured at the telephone.
async fn the_agent_stops_when_the_caller_speaks_and_hears_every_word() {
    for leg in all_legs() {
        let script = "- tone: { hertz: 440, for: 30s }\n- listen: {}\n- tone: { hertz: 900, for: 1s }\n- listen: {}";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n")).await;
        let says = silence(ms(3000)) + tone(CALLER_HZ, ms(600)) + silence(ms(20_000));
        let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
        phone.wait_to_hear(900.0, ms(900), SOON).await;
        phone.hang_up().await;
        let heard = phone.heard();
        let stopped = heard.spans_of(AGENT_HZ).last().expect("the agent spoke").end;
        // 3 s until the caller speaks; the phone, the lab and the agent's own 60 ms of onset add theirs.
        assert!(stopped >= ms(3000) && stopped <= ms(3500), "{leg}: the agent spoke until {stopped:?}");
        offhook.metric_is("offhook_barge_in_stop_seconds_count", 1.0).await;
        let sum = offhook.metric("offhook_barge_in_stop_seconds_sum").await;
        assert!(sum <= 0.040, "{leg}: {sum} s from the decision to the first frame without the agent");
        let ended = offhook.wait_ended(1, SOON).await;
        assert_eq!(ended[0]["counts"]["barge_ins"], 1, "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

/// Another program takes all it can get of the engine's only core.
async fn a_program_that_takes_a_whole_core_beside_the_engine_makes_no_hole_in_what_is_heard() {
    for leg in ["audiosocket/slin", "rtp/ulaw", "websocket/slin16"] {
        let script = "- tone: { hertz: 440, for: 6s }\n- echo: 20s";
        let (asterisk, offhook) = pbx(script, &format!("    audio: {leg}\n    turns: {{ owner: provider }}\n")).await;
        let core = first_core();
        let pid = offhook.pid().to_string();
        let pinned = Command::new("taskset").args(["-a", "-p", "-c", &core, &pid]).stdout(Stdio::null()).status().await;
        assert!(pinned.expect("taskset, of util-linux").success());
        // The kernel ends it after so many seconds of a core, should nobody else.
        let mut hog = Command::new("taskset");
        hog.args(["-c", &core, "sh", "-c", "ulimit -t 60; while :; do :; done"]).kill_on_drop(true);
        let mut hog = hog.spawn().expect("a shell");
        let says = silence(ms(8_000)) + tone(CALLER_HZ, ms(1_000)) + silence(ms(20_000));
        let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
        phone.wait_to_hear(CALLER_HZ, ms(900), SOON).await;
        assert!(hog.try_wait().expect("a child").is_none(), "it took the core all the time");
        phone.hang_up().await;
        for hertz in [AGENT_HZ, CALLER_HZ] {
            let heard = phone.heard();
            let spans = heard.spans_of(hertz);
            let holes = spans.windows(2).map(|two| two[1].begin - two[0].end);
            let longest = holes.max().unwrap_or_default();
            assert!(longest <= ms(60), "{leg}: a hole of {longest:?} at {hertz} Hz: {spans:?}");
        }
        assert_eq!(offhook.metric("offhook_media_faults_total").await, 0.0, "{leg}: the path was taken for broken");
        assert_eq!(offhook.wait_end_reason(SOON).await, "caller_hung_up", "{leg}");
        asterisk.wait_empty(SOON).await;
    }
}

/// That this process may use.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel's page");
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its cores").trim();
    cores.chars().take_while(char::is_ascii_digit).collect()
}

async fn a_short_yes_is_heard_and_answered() {
    let script = "- tone: { hertz: 440, for: 500ms }\n- listen: {}\n- tone: { hertz: 900, for: 1s }\n- listen: {}";
    let (asterisk, _offhook) = pbx(script, "").await;
    let says = silence(ms(2000)) + tone(CALLER_HZ, ms(200)) + silence(ms(20_000));
    let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
    phone.wait_to_hear(900.0, ms(950), SOON).await;
    phone.hang_up().await;
}

async fn each_key_arrives_once_over_every_leg() {
    for leg in all_legs() {
        let (asterisk, offhook) = pbx("- tone: { hertz: 440, for: 60s }", &format!("    audio: {leg}\n")).await;
        let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(30_000))).await;
        phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
        for key in ['1', '5', '#'] {
            phone.dtmf(key).await;
        }
        offhook.wait_active_where(|call| call["counts"]["keys"] == 3, SOON).await;
        phone.hang_up().await;
        let ended = offhook.wait_ended(1, SOON).await;
        assert_eq!(ended[0]["counts"]["keys"], 3, "{leg}");
    }
}

crate::scenes! {
    // `legs` shows on a real Asterisk what the others show of each leg, in one call.
    real:
        an_asterisk_that_sends_g722_by_rtp_is_understood_wideband;
    both:
        both_sides_hear_each_other_over_every_leg,
        the_agent_stops_when_the_caller_speaks_and_hears_every_word,
        a_short_yes_is_heard_and_answered,
        each_key_arrives_once_over_every_leg;
    // Another program takes a core of the machine; `make bench` counts missed slots.
    on_request:
        a_program_that_takes_a_whole_core_beside_the_engine_makes_no_hole_in_what_is_heard;
}
