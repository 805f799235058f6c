//! One test call for each way of carrying audio: what arrives of a tone, each way, and what to do where it does not.

use super::{Finding, Grade, calls, pbx};
use crate::{
    asterisk::{
        ari::Fault,
        probe::{Probe, ProbeError, Sound, Standing, Way, sent_level},
    },
    audio::Format,
    call::SetupStep,
    config::{AudioChoice, Config, Transport},
};
use serde::Serialize;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const AREA: &str = "call";
/// Set up in milliseconds, 1.7 s of sound, cleared away in milliseconds; each step has its own limit.
const CALL_MAX: Duration = Duration::from_secs(8);
/// So much of a tone arrives at the least where nothing is wrong.
const WHOLE: f64 = 0.8;
/// From so much on that is loud and not the tone, a codec is at fault and not a packet.
const GARBLED: f64 = 0.3;
/// Both ways together on a local network: two frames, and what Asterisk takes.
const QUICK: Duration = Duration::from_millis(150);
/// Codecs change a level by tenths; so much is a setting, or another codec than was said.
const LEVEL_SLACK_DB: f64 = 6.0;

/// Every transport, with what is tried of it where no context uses it: `AI_AUDIO` may still choose it.
pub const TRIED: [AudioChoice; 3] = [
    AudioChoice { transport: Transport::AudioSocket, format: Format::SLIN8, opus: false },
    AudioChoice { transport: Transport::Rtp, format: Format::ULAW, opus: false },
    AudioChoice { transport: Transport::WebSocket, format: Format::SLIN16, opus: false },
];

/// What became of one test call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// As the configuration writes it: `rtp/ulaw`.
    pub audio: String,
    /// A context, or `media.default`, uses it.
    pub configured: bool,
    pub grade: Grade,
    pub says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Caller → offhook; absent where no call stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_caller: Option<Path>,
    /// offhook → caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_caller: Option<Path>,
}

/// One direction of a test call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Path {
    /// From the sending of the tone's first frame, or of its last, until it is heard; absent where it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Of the tone, what did not arrive.
    pub loss_percent: f64,
    /// How loud it arrives, in dBov (RFC 6464).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_dbov: Option<f64>,
    /// How loud it was sent.
    pub sent_dbov: f64,
}

impl From<Way> for Path {
    fn from(way: Way) -> Self {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        Self {
            delay_ms: way.delay.map(|delay| tenths(delay.as_secs_f64() * 1e3)),
            loss_percent: tenths((1.0 - way.share) * 100.0),
            level_dbov: way.level.map(tenths),
            sent_dbov: tenths(sent_level()),
        }
    }
}

impl Trial {
    pub(super) fn finding(&self) -> Finding {
        Finding { area: AREA, grade: self.grade, says: self.says.clone(), remedy: self.remedy.clone() }
    }

    fn new(choice: AudioChoice, configured: bool, found: Finding, sound: Option<&Sound>) -> Self {
        // Where nothing that is configured depends on it, nothing is broken.
        let Finding { grade, says, remedy, .. } = if configured { found } else { found.mild() };
        let (from_caller, to_caller) = sound.map(|sound| (sound.heard.into(), sound.spoken.into())).unzip();
        Self { audio: choice.to_string(), configured, grade, says, remedy, from_caller, to_caller }
    }
}

/// What `offhook media-test` tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MediaTest {
    /// What keeps test calls from being placed, or was left behind.
    pub findings: Vec<Finding>,
    pub trials: Vec<Trial>,
}

impl MediaTest {
    /// No call that a context needs has failed.
    pub fn passed(&self) -> bool {
        let grades = self.findings.iter().map(|found| found.grade).chain(self.trials.iter().map(|trial| trial.grade));
        grades.max().unwrap_or(Grade::Ok) < Grade::Problem && !self.trials.is_empty()
    }
}

/// Places the test calls, one after the other, in an application of its own beside an engine that runs. With `only`, those
/// of that transport count as if they were configured, and no other is tried.
pub async fn media_test(config: &Config, only: Option<Transport>, stop: &CancellationToken) -> MediaTest {
    let Some(asterisk) = &config.asterisk else {
        let says = "there is no section asterisk, so there is nothing to place a test call through";
        let remedy = "test calls need ARI; with AudioSocket() alone, call the extension yourself";
        return MediaTest { findings: vec![Finding::problem("asterisk", says, remedy)], trials: Vec::new() };
    };
    let modules = match pbx::modules(asterisk).await {
        Ok(modules) => modules,
        Err(finding) => return MediaTest { findings: vec![finding], trials: Vec::new() },
    };
    let mut choices = all(config, if only.is_some() { None } else { Some(&modules) });
    if let Some(only) = only {
        choices.retain(|(choice, _)| choice.transport == only);
        choices.iter_mut().for_each(|(_, configured)| *configured = true);
    }
    let (findings, trials) =
        calls::place(config, asterisk, (&choices, &modules), stop, async |_: &Standing<'_>| ()).await;
    MediaTest { findings, trials }
}

/// What is configured, and the transports that are not. Where `modules` are told, only those that this Asterisk has.
pub(super) fn all(config: &Config, modules: Option<&BTreeSet<String>>) -> Vec<(AudioChoice, bool)> {
    let mut choices: Vec<_> = pbx::audio_choices(config).into_iter().map(|choice| (choice, true)).collect();
    for tried in TRIED {
        // An Asterisk before 22.8 has no such transport, and nothing is wrong with it for that.
        let has = modules.is_none_or(|modules| modules.contains("chan_websocket"));
        if tried.transport == Transport::WebSocket && !has {
            continue;
        }
        if choices.iter().all(|(choice, _)| choice.transport != tried.transport) {
            choices.push((tried, false));
        }
    }
    choices
}

/// One test call; `meanwhile` is asked something while it stands.
pub(super) async fn try_one(
    probe: &mut Probe,
    (choice, configured): (AudioChoice, bool),
    (config, modules): (&Config, &BTreeSet<String>),
    meanwhile: impl AsyncFnOnce(&Standing<'_>),
) -> Trial {
    let absent: Vec<_> = pbx::modules_of(choice).into_iter().filter(|module| !modules.contains(*module)).collect();
    // An Asterisk that does not tell its modules is tried.
    if !modules.is_empty() && !absent.is_empty() {
        let says = format!("{choice}: no test call, since Asterisk has no {}", absent.join(", "));
        let remedy = format!("load the module, or use another transport than {choice}");
        return Trial::new(choice, configured, Finding::problem(AREA, says, remedy), None);
    }
    let calling = timeout(CALL_MAX, Box::pin(one(probe, choice, config, meanwhile)));
    let (found, sound) = calling.await.unwrap_or_else(|_| {
        let says = format!("{choice}: the test call was not over within {} s", CALL_MAX.as_secs());
        (Finding::problem(AREA, says, "is Asterisk overloaded? `asterisk -rx 'core show channels'`"), None)
    });
    Trial::new(choice, configured, found, sound.as_ref())
}

async fn one(
    probe: &mut Probe,
    choice: AudioChoice,
    config: &Config,
    meanwhile: impl AsyncFnOnce(&Standing<'_>),
) -> (Finding, Option<Sound>) {
    let own_port = probe.own_port();
    let advertise = match choice.transport {
        Transport::AudioSocket => probe.audiosocket().to_owned(),
        Transport::Rtp => config.media.rtp.advertise.clone(),
        Transport::WebSocket => {
            format!("the WebSocket at {}/media", config.asterisk.as_ref().map_or("", |asterisk| &asterisk.url))
        }
    };
    let mut call = match Box::pin(probe.call(choice)).await {
        Ok(call) => call,
        Err(error) => return (failure(choice, &advertise, own_port, &error), None),
    };
    meanwhile(&call).await;
    let sound = call.listen().await;
    call.end().await;
    (judge(choice, &advertise, own_port, &sound), Some(sound))
}

fn judge(choice: AudioChoice, advertise: &str, own_port: bool, sound: &Sound) -> Finding {
    let Sound { heard, spoken, asterisk_alone } = sound;
    match (heard.delay, spoken.delay) {
        (Some(there), Some(back)) => both_ways(choice, there + back, sound),
        _ if heard.garbled.max(spoken.garbled) > GARBLED => {
            let way = if heard.garbled > GARBLED { "from the caller" } else { "to the caller" };
            let modules = match pbx::modules_of(choice).last() {
                Some(module) if module.starts_with("codec_") => {
                    format!(" (`asterisk -rx 'module show like {module}'`)")
                }
                _ => String::new(),
            };
            Finding::problem(
                AREA,
                format!(
                    "{choice}: a test call stands, and what arrives {way} is noise: the two sides use different codecs"
                ),
                format!("let nothing between offhook and Asterisk change the audio; see Asterisk's own codec{modules}"),
            )
        }
        _ if *asterisk_alone || (heard.arrived && spoken.arrived) => Finding::problem(
            AREA,
            format!(
                "{choice}: a test call stands and Asterisk is heard, but nothing that is sent to Asterisk arrives there"
            ),
            unheard(choice.transport, own_port),
        ),
        // The way from Asterisk to us is that of the advertised address.
        (None, _) => Finding::problem(
            AREA,
            format!("{choice}: a test call stands, but nothing that Asterisk sends to {advertise} arrives"),
            unreached(choice.transport, own_port),
        ),
        (Some(_), None) => Finding::problem(
            AREA,
            format!("{choice}: a test call stands, but nothing that is sent to Asterisk is heard"),
            unheard(choice.transport, own_port),
        ),
    }
}

/// Something is heard both ways; all of it, soon, and as loud as it was sent?
fn both_ways(choice: AudioChoice, round: Duration, Sound { heard, spoken, .. }: &Sound) -> Finding {
    let share = heard.share.min(spoken.share);
    let says = format!("{choice}: a test call is heard both ways, {:.1} ms there and back", round.as_secs_f64() * 1e3);
    let off = [heard, spoken].map(|way| way.level.map_or(0.0, |level| level - sent_level()));
    let off = if off[0].abs() > off[1].abs() { off[0] } else { off[1] };
    if share < WHOLE {
        Finding::warning(
            AREA,
            format!("{says}, but only {:.0} % of the sound arrives", share * 100.0),
            "is a network in between that loses packets, or one of the machines overloaded?",
        )
    } else if off.abs() > LEVEL_SLACK_DB {
        Finding::warning(
            AREA,
            format!(
                "{says}, but {:.0} dB {} than it was sent",
                off.abs(),
                if off > 0.0 { "louder" } else { "quieter" }
            ),
            "look for VOLUME() or AGC() in the dialplan, and for a gain of a gateway in between",
        )
    } else if round > QUICK {
        let remedy = "callers wait that much longer for every answer: bring offhook nearer to Asterisk";
        Finding::warning(AREA, says, remedy)
    } else {
        Finding::ok(AREA, says)
    }
}

fn failure(choice: AudioChoice, advertise: &str, own_port: bool, error: &ProbeError) -> Finding {
    let (says, remedy) = match error {
        ProbeError::Step(_, Some(error)) if error.fault == Fault::Unauthorized => (
            format!("{choice}: the ARI user may look, but not act"),
            "take `read_only = yes` out of its section in ari.conf".to_owned(),
        ),
        ProbeError::Step(SetupStep::MediaSocket, _) => (
            format!("{choice}: no port of media.rtp.ports is free"),
            "choose a range that no other program uses".into(),
        ),
        ProbeError::Step(SetupStep::MediaConnect | SetupStep::MediaChannel, said) => {
            let said = said.as_ref().map(|error| format!(" ({})", error.fault)).unwrap_or_default();
            (
                format!("{choice}: Asterisk opens no audio path to {advertise}{said}"),
                unreached(choice.transport, own_port),
            )
        }
        ProbeError::Step(step, said) => {
            let said = said.as_ref().map(|error| format!(": {}", error.fault)).unwrap_or_default();
            (
                format!("{choice}: a test call failed at its step {}{said}", step.label()),
                "see Asterisk's log of this moment".into(),
            )
        }
        error => (format!("{choice}: a test call failed: {error}"), "see Asterisk's log of this moment".into()),
    };
    Finding::problem(AREA, says, remedy)
}

/// What to do where Asterisk and we do not come together.
fn unreached(transport: Transport, own_port: bool) -> String {
    let setting = match transport {
        Transport::AudioSocket => "media.audiosocket.advertise (or .bind)",
        Transport::Rtp => "media.rtp.advertise (or .bind)",
        Transport::WebSocket => {
            return "asterisk.url must lead to Asterisk, or to a proxy that passes /media on like /ari, and Asterisk must be 22.8 \
                    or later (or 20.18, 23.2)"
                .into();
        }
    };
    let firewall = firewall(transport, own_port);
    format!("{setting} must be an address at which Asterisk reaches this machine{firewall}")
}

/// What to do where Asterisk hears nothing of what we send.
fn unheard(transport: Transport, own_port: bool) -> String {
    if transport == Transport::WebSocket {
        return "whatever passes /media on between offhook and Asterisk must pass binary messages on both ways and at once; \
                without it asterisk.url is Asterisk itself"
            .into();
    }
    let firewall = firewall(transport, own_port);
    format!("let this machine reach Asterisk's ports (rtp.conf: rtpstart to rtpend){firewall}")
}

fn firewall(transport: Transport, own_port: bool) -> &'static str {
    match (transport, own_port) {
        (Transport::AudioSocket, true) => {
            "; the configured port is in use by the engine that runs, so this was another one, which a firewall may not let through"
        }
        (Transport::AudioSocket, false) => ", and a firewall in between must let its port through (TCP)",
        (Transport::Rtp, _) => ", and a firewall in between must let media.rtp.ports through (UDP)",
        (Transport::WebSocket, _) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICE: AudioChoice = AudioChoice { transport: Transport::Rtp, format: Format::ULAW, opus: false };

    fn way(share: f64, garbled: f64, level: f64, arrived: bool) -> Way {
        let heard = (share > 0.0).then_some(());
        let (delay, level) = (heard.map(|()| Duration::from_millis(21)), heard.map(|()| level));
        Way { share, garbled, delay, level, arrived }
    }

    #[test]
    fn each_fault_of_a_path_has_its_own_words_and_its_own_remedy() {
        let (good, none, silence) = (way(1.0, 0.0, -15.3, true), way(0.0, 0.0, 0.0, false), way(0.0, 0.0, 0.0, true));
        let noise = way(0.0, 1.0, 0.0, true);
        for (heard, spoken, asterisk_alone, grade, says, remedy) in [
            (good, good, false, Grade::Ok, "42.0 ms there and back", ""),
            (
                none,
                none,
                false,
                Grade::Problem,
                "nothing that Asterisk sends to 10.0.0.9 arrives",
                "media.rtp.advertise",
            ),
            (none, none, true, Grade::Problem, "Asterisk is heard, but nothing that is sent", "rtpstart to rtpend"),
            (silence, silence, false, Grade::Problem, "Asterisk is heard, but nothing that is sent", "rtpstart"),
            (good, none, false, Grade::Problem, "nothing that is sent to Asterisk is heard", "rtpstart to rtpend"),
            (
                noise,
                good,
                false,
                Grade::Problem,
                "what arrives from the caller is noise",
                "module show like codec_ulaw",
            ),
            (good, noise, false, Grade::Problem, "what arrives to the caller is noise", "codec"),
            (
                good,
                way(0.5, 0.0, -15.3, true),
                false,
                Grade::Warning,
                "only 50 % of the sound arrives",
                "loses packets",
            ),
            (good, way(1.0, 0.0, -27.4, true), false, Grade::Warning, "12 dB quieter than it was sent", "VOLUME()"),
        ] {
            let found = judge(CHOICE, "10.0.0.9", false, &Sound { heard, spoken, asterisk_alone });
            let told = found.says.contains(says) && found.remedy.as_deref().unwrap_or_default().contains(remedy);
            assert!(found.grade == grade && told, "{says}: {found:?}");
        }
    }
}
