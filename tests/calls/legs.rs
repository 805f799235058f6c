//! One call over every audio path, and the page that tells what was seen of them: `docs/legs.md`. `OFFHOOK_BLESS=1` writes it;
//! without it, the test fails where something else was seen.

use crate::calls::{
    SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{longest_gap, silence, tone},
        offhook::{Offhook, Place},
        phone::{Phone, Wide},
        proxy::{Carries, Flow, Proxy},
    },
    ms,
    repairs::REPAIRED,
};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};

/// Without ARI: the dialplan itself connects the caller.
pub const WALK_IN: &str = "AudioSocket()";

/// Each call has an Asterisk of its own, and more of them on two cores keep each other from sending in time.
const AT_ONCE: usize = 3;

/// Every value of `media.default`, and a caller to try it with. All phones speak wideband, so that it is the leg where it gets
/// lost.
pub const LEGS: [(&str, Wide); 16] = [
    ("audiosocket/slin", Wide::G722),
    ("audiosocket/slin16", Wide::G722),
    ("audiosocket/slin24", Wide::G722),
    ("audiosocket/slin48", Wide::G722),
    ("rtp/ulaw", Wide::G722),
    ("rtp/alaw", Wide::G722),
    ("rtp/slin16", Wide::G722),
    ("websocket/slin", Wide::G722),
    ("websocket/slin16", Wide::G722),
    ("websocket/slin24", Wide::G722),
    ("websocket/slin48", Wide::G722),
    ("websocket/ulaw", Wide::G722),
    ("websocket/alaw", Wide::G722),
    ("websocket/opus", Wide::Opus),
    ("websocket/opus", Wide::G722),
    (WALK_IN, Wide::G722),
];

/// In sounds of such a phone a second takes two, and everything is half as high.
const AGENT_HZ: f64 = 220.0;
const AGENT_AFTER_HZ: f64 = 450.0;
const CALLER_HZ: f64 = 350.0;
/// 6 kHz: more than a narrow path can carry.
const HIGH_HZ: f64 = 3_000.0;
const LAST_HZ: f64 = 600.0;
const SECOND: Duration = ms(2_000);
/// A second that was heard: on a busy machine a phone plays silence where sound comes too late.
const HEARD: Duration = ms(1_400);

const SCRIPT: &str = "- tone: { hertz: 440, for: 1s }\n- echo: 8s\n- tone: { hertz: 440, for: 60s }\n- listen: {}\n\
                      - tone: { hertz: 900, for: 60s }";
const PATIENCE: Duration = Duration::from_secs(30);

/// What was seen of a leg.
#[derive(Debug, Default)]
struct Seen {
    /// The format of Asterisk's media channel, in its own words.
    carried: String,
    /// The samples of a call's audio in offhook.
    samples: String,
    wideband: bool,
    /// Times the agent was told of one key press.
    keys: u64,
    /// Times the agent was told of a key pressed while the events socket was down.
    keys_unseen: u64,
    /// The agent was not heard any more when it had been interrupted; where Asterisk can throw something away, with 1.6 s of it
    /// waiting there.
    silenced: bool,
    /// Less than a second of silence had to be left out so that Asterisk could catch up.
    nothing_waits: bool,
    /// 50 frames left a second, as far as a busy machine lets a second be measured.
    even: bool,
    /// The agent was heard again over another path, within two seconds.
    repaired: bool,
    /// Frames that were thrown away, either way, but for that silence.
    discarded: f64,
}

/// Frames of 20 ms.
const PER_SECOND: f64 = 50.0;
/// Frames that make 1.6 s of the agent's words wait in Asterisk.
const AHEAD: usize = 80;

/// T23: each row of `docs/legs.md`.
async fn what_is_seen_of_each_leg_is_what_the_page_tells() {
    let mut calls = JoinSet::new();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for (number, (leg, phone)) in LEGS.into_iter().enumerate() {
        let places = Arc::clone(&places);
        calls.spawn(async move {
            let _place = places.acquire().await.expect("nobody closes it");
            (number, one_call(leg, phone).await)
        });
    }
    let mut rows = BTreeMap::new();
    let mut version = String::new();
    while let Some(called) = calls.join_next().await {
        let (number, (seen, asterisk)) = called.expect("a call that was heard");
        version = asterisk;
        rows.insert(number, seen);
    }
    let page = page(&version, rows.into_values().zip(LEGS));
    let path = offhook_kit::project().join("docs/legs.md");
    if std::env::var_os("OFFHOOK_BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    // A later Asterisk in which all is the same is no fault.
    let rows =
        |page: &str| page.lines().filter(|line| !line.starts_with("Seen with")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&written), rows(&page), "docs/legs.md tells something else; OFFHOOK_BLESS=1 writes what was seen");
}

/// Places one call over this leg, and tries everything in it.
async fn one_call(leg: &str, codec: Wide) -> (Seen, String) {
    let place = Place::free();
    let audiosocket = Some(format!("127.0.0.1:{}", place.audiosocket));
    let asterisk = Asterisk::start(Options { audiosocket, ..Options::default() }).await;
    // The agent echoes: whoever hears a caller over it would have it pause.
    let (extension, audio) = if leg == WALK_IN { ("7080", "audiosocket/slin") } else { ("7000", leg) };
    let context = format!("    audio: {audio}\n    turns: {{ owner: provider }}\n");
    let proxy = Proxy::to(asterisk.http_port()).await;
    let yaml = place.yaml_of(Some((&proxy.url(), asterisk.ari_password())));
    let offhook = Offhook::start(place, &format!("{yaml}{}", agent(SCRIPT, &context))).await;
    offhook.wait_ready(true).await;
    let says = silence(2 * SECOND) + tone(CALLER_HZ, SECOND) + tone(HIGH_HZ, SECOND) + tone(LAST_HZ, SECOND / 2);
    let mut phone = Phone::call_wide(asterisk.sip_port(), extension, says, codec).await;
    let mut seen = Seen::default();
    hears(leg, &phone, AGENT_HZ, SECOND).await;
    seen.carried = native_formats(&asterisk).await;
    // The caller's own words, through the agent and back.
    hears(leg, &phone, CALLER_HZ, SECOND).await;
    hears(leg, &phone, LAST_HZ, SECOND / 2).await;
    let heard = phone.heard();
    // All of it, and nothing twice; `audio.rs` holds that it has no hole.
    for hz in [AGENT_HZ, CALLER_HZ] {
        let length = heard.time_of(hz);
        assert!(length.abs_diff(SECOND) <= SECOND - HEARD, "{leg}: {length:?} of {hz} Hz");
    }
    seen.wideband = heard.time_of(HIGH_HZ) >= HEARD;
    assert!(seen.wideband || heard.time_of(HIGH_HZ) <= SECOND / 10, "{leg}: 6 kHz for {:?}", heard.time_of(HIGH_HZ));

    // Counted before the test makes any fault: what is thrown away in one depends on how long it lasts.
    let discarded = ["offhook_media_discarded_total", "offhook_media_discarded_total{cause=\"behind\"}"];
    let [all, behind] = offhook.metrics(discarded).await;
    seen.discarded = all - behind;
    seen.nothing_waits = behind < PER_SECOND;

    let backlog = (transport(leg) == "websocket").then_some((&proxy, &offhook));
    seen.silenced = interrupts(leg, &mut phone, backlog).await;
    let behind = offhook.metric("offhook_media_faults_total{fault=\"behind\"}").await;
    assert_eq!(
        behind,
        if seen.carried == "opus" { 1.0 } else { 0.0 },
        "{leg}: what waits goes with the path, or is flushed"
    );
    phone.dtmf('5').await;
    offhook.wait_active_where(|call| call["counts"]["keys"].as_u64() >= Some(1), SOON).await;
    seen.even = paced(leg, &offhook).await;
    seen.keys = keys(&offhook).await;
    seen.keys_unseen = keys_without_events(leg, &proxy, &offhook, &mut phone, seen.keys).await;
    // It has no channel of its own that could end.
    seen.repaired = leg != WALK_IN && repairs(leg, &asterisk, &offhook, &phone).await;

    phone.hang_up().await;
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!(ended[0]["reason"]["label"], "caller_hung_up", "{leg}");
    let keys = ended[0]["counts"]["keys"].as_u64().expect("a number");
    assert_eq!(keys, seen.keys + seen.keys_unseen + 1, "{leg}: the last one was told twice");
    seen.samples = samples(&offhook.log(), ended[0]["id"].as_str().expect("an id"));
    asterisk.wait_empty(SOON).await;
    assert_eq!(offhook.metric("offhook_media_open{").await, 0.0, "{leg}: sockets left open");
    let version = asterisk.cli("core show version").await;
    (seen, version.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

async fn hears(leg: &str, phone: &Phone, hz: f64, length: Duration) {
    phone.wait_to_hear_of(leg, hz, length * 7 / 10, PATIENCE).await;
}

/// `NativeFormats: (slin16)` of the media channel; where there is none, what the caller's is read as.
async fn native_formats(asterisk: &Asterisk) -> String {
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|name| !name.starts_with("PJSIP/"));
    let (channel, formats) = media.map_or((&channels[0], "ReadFormat:"), |media| (media, "NativeFormats:"));
    let shown = asterisk.cli(&format!("core show channel {channel}")).await;
    let line = shown.lines().find_map(|line| line.trim().strip_prefix(formats));
    line.expect("its formats").trim().trim_matches(['(', ')']).to_owned()
}

/// Of the call that is on, so far.
async fn keys(offhook: &Offhook) -> u64 {
    offhook.json("calls").await["active"][0]["counts"]["keys"].as_u64().expect("a number")
}

/// An event of ARI is some hundred bytes; all else on its socket is a few.
const EVENT_BYTES_MIN: usize = 100;

/// A key is pressed while the events are away, and another one when they are there again: by then the first is told, or lost.
async fn keys_without_events(leg: &str, proxy: &Proxy, offhook: &Offhook, phone: &mut Phone, so_far: u64) -> u64 {
    let (reconnects, held) = (offhook.metric("offhook_ari_reconnects_total").await, proxy.held());
    proxy.order(Carries::Events, Flow::Holds);
    phone.dtmf('7').await;
    if leg == WALK_IN {
        offhook.wait_active_where(|call| call["counts"]["keys"].as_u64() > Some(so_far), SOON).await;
    } else {
        let until = Instant::now() + SOON;
        while proxy.held() < held + EVENT_BYTES_MIN {
            assert!(Instant::now() < until, "{leg}: no event of the key");
            sleep(ms(20)).await;
        }
    }
    // The event that is held is lost with its connection.
    proxy.order(Carries::Events, Flow::Cut);
    offhook.wait_metric("offhook_ari_reconnects_total", reconnects + 1.0, SOON).await;
    offhook.wait_ready(true).await;
    let untold = keys(offhook).await;
    phone.dtmf('9').await;
    offhook.wait_active_where(|call| call["counts"]["keys"].as_u64() > Some(untold), SOON).await;
    let told = keys(offhook).await - so_far;
    assert!(told >= 1, "{leg}");
    told - 1
}

/// As the log tells when this call begins; engines of one process share a log.
fn samples(log: &str, call: &str) -> String {
    let line = log.lines().find(|line| line.contains("call began") && line.contains(call)).expect("a call that began");
    let (_, format) = line.split_once("audio").expect("its audio");
    format.trim_start_matches(['=', '"', ':', ' ']).chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// The agent's words are late on their way to Asterisk, four times: each time 400 ms are missing at first, and as
/// much more waits there afterwards. Returns when Asterisk has told of it.
pub async fn fall_behind(proxy: &Proxy, offhook: &Offhook) {
    for late in [400, 800, 1_200, 1_600] {
        proxy.order(Carries::Media, Flow::Delays);
        sleep(ms(late)).await;
        proxy.order(Carries::Media, Flow::Passes);
        sleep(ms(200)).await;
    }
    words_wait(offhook).await;
}

/// Returns when Asterisk has told that most of 1.6 s of the agent's words wait there.
async fn words_wait(offhook: &Offhook) {
    const WAIT: [&str; 2] = ["offhook_media_waiting_frames_sum", "offhook_media_waiting_frames_count"];
    // One question may have been on its way.
    let asked = offhook.metric(WAIT[1]).await;
    offhook.wait_metric(WAIT[1], asked + 1.0, SOON).await;
    let before = offhook.metrics(WAIT).await;
    offhook.wait_metric(WAIT[1], before[1] + 1.0, SOON).await;
    let after = offhook.metrics(WAIT).await;
    let waits = (after[0] - before[0]) / (after[1] - before[1]);
    assert!(waits >= 1.2 * PER_SECOND, "{waits} frames wait in Asterisk");
}

/// The caller speaks into the agent's words; whether the agent is silent within a second of the line's, also where 1.6 s of it
/// wait in Asterisk.
async fn interrupts(leg: &str, phone: &mut Phone, behind: Option<(&Proxy, &Offhook)>) -> bool {
    let so_far = phone.heard().time_of(AGENT_HZ);
    hears(leg, phone, AGENT_HZ, (so_far + SECOND) * 10 / 9).await;
    if let Some((proxy, offhook)) = behind {
        // The backlog is made without a hole in the audio, for which the path would be taken for broken.
        proxy.order(Carries::Media, Flow::Ahead(AHEAD));
        words_wait(offhook).await;
    }
    // Making the sound takes a while; its first word is not on its way before.
    phone.say(tone(CALLER_HZ, SECOND * 6 / 10)).await;
    let said = phone.heard().length();
    hears(leg, phone, AGENT_AFTER_HZ, SECOND).await;
    phone.heard().spans_of(AGENT_HZ).last().expect("it spoke").end <= said + SECOND
}

fn transport(leg: &str) -> &str {
    if leg == WALK_IN { "audiosocket" } else { leg.split('/').next().expect("a transport") }
}

/// Whether as many frames leave as a clock of 20 ms wants.
async fn paced(leg: &str, offhook: &Offhook) -> bool {
    let transport = transport(leg);
    let sent = format!("offhook_media_frames_sent_total{{transport=\"{transport}\"}}");
    // The engine counts at some moment between a question and its answer.
    let count = async || (Instant::now(), offhook.metric(&sent).await, Instant::now());
    let (asked, before, answered) = count().await;
    sleep(ms(2_000)).await;
    let (asked_again, after, answered_again) = count().await;
    let rate = |time: Duration| (after - before) / time.as_secs_f64();
    rate(answered_again - asked) <= 1.2 * PER_SECOND && rate(asked_again - answered) >= 0.8 * PER_SECOND
}

/// Asterisk's media channel ends under the call.
async fn repairs(leg: &str, asterisk: &Asterisk, offhook: &Offhook, phone: &Phone) -> bool {
    let so_far = offhook.metric(REPAIRED).await;
    let channels = asterisk.channels().await;
    let media = channels.iter().find(|name| !name.starts_with("PJSIP/")).expect("a media channel");
    asterisk.cli(&format!("channel request hangup {media}")).await;
    offhook.wait_metric(REPAIRED, so_far + 1.0, SOON).await;
    let so_far = phone.heard().time_of(AGENT_AFTER_HZ);
    hears(leg, phone, AGENT_AFTER_HZ, (so_far + SECOND) * 10 / 9).await;
    longest_gap(&phone.heard(), AGENT_AFTER_HZ) <= 2 * SECOND
}

/// What holds for a transport whatever it carries, beside what is seen.
struct Words {
    flush: &'static str,
    marks: &'static str,
    paced_by: &'static str,
    lost: &'static str,
}

const fn words(transport: &str, opus: bool) -> Words {
    match (transport.as_bytes(), opus) {
        (b"audiosocket", _) => Words {
            flush: "nothing to flush",
            marks: "what has left is heard",
            paced_by: "offhook",
            lost: "Asterisk does not read: frames that the socket refuses, never played late",
        },
        (b"rtp", _) => Words {
            flush: "nothing to flush",
            marks: "what has left is heard",
            paced_by: "offhook",
            lost: "packets that the network loses: of the caller, two in a row are concealed",
        },
        (_, false) => Words {
            flush: "`FLUSH_MEDIA`",
            marks: "what has left, less what Asterisk says waits",
            paced_by: "offhook, then Asterisk's clock",
            lost: "Asterisk is behind: silence is left out; at XOFF what waits there",
        },
        (_, true) => Words {
            flush: "a frame or two go on; where more than a second waits the path is replaced",
            marks: "what has left, less what Asterisk says waits where the path is replaced",
            paced_by: "offhook, then Asterisk's clock",
            lost: "Asterisk is behind: silence is left out; at XOFF the path is replaced; a packet that cannot be read is concealed",
        },
    }
}

const HEAD: &str = "\
# The audio paths, one by one

Written by the test `calls::legs`, which places a call over each of them through a real Asterisk: a wideband phone, an agent, a
tone each way, 6 kHz there and back, a key, an interruption, and the end of Asterisk's media channel in mid-call.
[telephony.md](telephony.md#how-the-audio-travels) tells which one to choose, and what is done when one breaks.

";

const COLUMNS: &str = "\
What is seen in the run: the formats, *wideband*, *keys* with and without events, whether the agent is silent after *flush*, that nothing waits and nothing is
lost without a fault, and what the end of a path costs (`calls::walk_ins` sees it where the dialplan connects). Where Asterisk
holds something back, one frame of the agent's words reached it 80 times before, so that 1.6 s of them waited there: without a flush they are heard on. The ways of
*flush*, *marks* and *paced by* and the faults of *lost when* are how the paths are built. Through a real Asterisk, `calls::faults`
holds what a vendor is told was heard against what the caller heard, `calls::websocket` fills Asterisk's queue until XOFF, `calls::repairs`
has an AudioSocket that is not read, and `calls::rtp_faults` loses packets; the rest of their tests are those of `asterisk::rtp`,
`asterisk::audiosocket`, `asterisk::websocket` and `call::playout`.

- *to and from Asterisk*: the format of Asterisk's media channel, and what is sent where that is another one. *in offhook*: what the
  call's audio is made of, before it is converted for the provider. G.722 is understood as well where Asterisk should send it by
  RTP, which sends samples to a leg of `slin16` (`calls::audio`). `Dial(AudioSocket/…/c(slin16))` in the dialplan is heard at the rate of its first
  audio, and AudioSocket's rates without a row (12, 32, 44.1, 96 and 192 kHz) become the next lower one with a row (`calls::walk_ins`).
- *wideband*: 6 kHz of the caller come back to the caller.
- *keys*: how often the agent was told of one key that was pressed; behind it what becomes of keys while the events of ARI are away,
  as when their socket reconnects. They come as such events, and over AudioSocket and WebSocket with the audio as well: whichever comes
  first counts (`calls::stress` sees it). By RTP nothing else tells of them. With `AudioSocket()` in the dialplan there are only those
  of the audio.
- *flush*: how what waits is thrown away when the caller interrupts, and whether nothing more of the agent is heard then.
- *marks*: how offhook knows what of an answer was heard. Asterisk's own marks (`MARK_MEDIA`) are not used; it is asked once a second how
  much waits, and what of that is flushed counts as not heard, and so does what is thrown away at XOFF. What another fault swallows counts
  as said, since it is not said again; `offhook_media_discarded_total` and `offhook_frames_dropped_total` count it.
- *paced by*: whose clock the agent's audio leaves by.
- *lost when*: what is not heard in a fault other than the end of the path. *path ends*: what the end of the media channel costs;
  of `AudioSocket()` in the dialplan, what its closing does.
  *XOFF* is Asterisk's word that its own queue is full.

";

fn page(version: &str, rows: impl Iterator<Item = (Seen, (&'static str, Wide))>) -> String {
    let yes = |yes: bool| if yes { "yes" } else { "**no**" };
    let mut page = format!("{HEAD}Seen with {version}.\n\n");
    page += "| leg | caller | to and from Asterisk | in offhook | wideband | keys | flush | marks | paced by | lost when | path ends |\n";
    page += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for (seen, (leg, codec)) in rows {
        assert_eq!(seen.discarded, 0.0, "{leg}: frames were thrown away");
        let opus = seen.carried == "opus";
        let Words { flush, marks, paced_by, lost } = words(transport(leg), opus);
        let caller = if codec == Wide::Opus { "Opus" } else { "G.722" };
        // Asterisk understands nothing else of us at 16 kHz.
        let both = if leg == "rtp/slin16" {
            "`slin16` from it, `g722` to it".to_owned()
        } else {
            format!("`{}`", seen.carried)
        };
        let keys = match seen.keys_unseen {
            0 => "lost",
            1 => "as well",
            _ => "**told again**",
        };
        let wideband = if seen.wideband { "yes" } else { "no" };
        let repaired = match leg {
            WALK_IN => "the dialplan goes on",
            _ if seen.repaired => "another one within 2 s",
            _ => "**the call**",
        };
        let marks = if seen.nothing_waits { marks } else { "**frames wait in Asterisk**" };
        let paced = format!("{paced_by}{}", if seen.even { "" } else { " (**uneven**)" });
        writeln!(
            page,
            "| `{leg}` | {caller} | {both} | `{}` | {wideband} | {}; without events: {keys} | {flush}; silent: {} | {marks} | {paced} | {lost} | {repaired} |",
            seen.samples,
            seen.keys,
            yes(seen.silenced)
        )
        .expect("writing to a String");
    }
    page + "\n" + COLUMNS.trim_end() + "\n"
}

crate::scenes! {
    real:
        what_is_seen_of_each_leg_is_what_the_page_tells;
}
