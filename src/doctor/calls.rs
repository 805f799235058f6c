//! Test calls through Asterisk, one for each way of carrying audio, and what of the dialplan can be asked meanwhile.

use super::{
    Finding,
    pbx::{audio_choices, modules_of},
};
use crate::{
    asterisk::{
        ari::Fault,
        probe::{Probe, ProbeError, Sound, Standing},
    },
    audio::Format,
    call::SetupStep,
    config::{AsteriskConfig, AudioChoice, Config, Place, Transport, Way},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const AREA: &str = "call";
/// The application's name begins with it.
const APP: &str = "offhook-doctor";
/// Set up in milliseconds, 1.7 s of sound, cleared away in milliseconds; each step has its own limit.
const CALL_MAX: Duration = Duration::from_secs(8);
/// So much of a tone arrives at the least where nothing is wrong.
const WHOLE: f64 = 0.8;
/// Both ways together on a local network: two frames, and what Asterisk takes.
const QUICK: Duration = Duration::from_millis(150);
/// What the shipped examples of a dialplan call the place that leads to offhook.
const EXAMPLES: [(&str, &str); 2] = [("offhook", "7000"), ("offhook-default", "s")];

pub(super) async fn examine(
    config: &Config,
    asterisk: &AsteriskConfig,
    modules: &BTreeSet<String>,
    stop: &CancellationToken,
) -> Vec<Finding> {
    let mut probe = match Probe::connect(APP, asterisk, &config.media).await {
        Ok(probe) => probe,
        Err(error) => {
            let remedy = "without a connection there are no test calls, and no real ones either";
            return vec![Finding::problem(AREA, format!("no test call could be placed: {error}"), remedy)];
        }
    };
    let (mut findings, mut places) = (Vec::new(), None);
    for (choice, used) in all(config, modules) {
        let absent: Vec<_> = modules_of(choice).into_iter().filter(|module| !modules.contains(*module)).collect();
        // An Asterisk that does not tell its modules is tried.
        if !modules.is_empty() && !absent.is_empty() {
            let says = format!("{choice}: no test call, since Asterisk has no {}", absent.join(", "));
            let found =
                Finding::problem(AREA, says, format!("load the module, or use another transport than {choice}"));
            findings.push(if used { found } else { found.mild() });
            continue;
        }
        let calling = timeout(CALL_MAX, one(&mut probe, choice, config, &mut places));
        let Some(tried) = stop.run_until_cancelled(calling).await else { break };
        let found = tried.unwrap_or_else(|_| {
            let says = format!("{choice}: the test call was not over within {} s", CALL_MAX.as_secs());
            Finding::problem(AREA, says, "is Asterisk overloaded? `asterisk -rx 'core show channels'`")
        });
        findings.push(if used { found } else { found.mild() });
    }
    findings.extend(places.into_iter().flatten());
    if !probe.close().await {
        let remedy = "`asterisk -rx 'core show channels'`; those of a doctor have offhook-doctor in their name";
        findings.push(Finding::warning(AREA, "Asterisk has not cleared all of the test calls away yet", remedy));
    }
    findings
}

/// What is configured, and the transports that are not, which AI_AUDIO may still choose.
fn all(config: &Config, modules: &BTreeSet<String>) -> Vec<(AudioChoice, bool)> {
    let mut choices: Vec<_> = audio_choices(config).into_iter().map(|choice| (choice, true)).collect();
    let others = [
        (Transport::AudioSocket, Format::SLIN8),
        (Transport::Rtp, Format::ULAW),
        (Transport::WebSocket, Format::SLIN16),
    ];
    for (transport, format) in others {
        let choice = AudioChoice { transport, format };
        // An Asterisk before 22.8 has no such transport, and nothing is wrong with it for that.
        let unknown = transport == Transport::WebSocket && !modules.contains("chan_websocket");
        if !unknown && choices.iter().all(|(known, _)| known.transport != transport) {
            choices.push((choice, false));
        }
    }
    choices
}

async fn one(probe: &mut Probe, choice: AudioChoice, config: &Config, places: &mut Option<Vec<Finding>>) -> Finding {
    let own_port = probe.own_port();
    let advertise = match choice.transport {
        Transport::AudioSocket => probe.audiosocket().to_owned(),
        Transport::Rtp => config.media.rtp.advertise.clone(),
        Transport::WebSocket => {
            format!("the WebSocket at {}/media", config.asterisk.as_ref().map_or("", |asterisk| &asterisk.url))
        }
    };
    let mut call = match probe.call(choice).await {
        Ok(call) => call,
        Err(error) => return failure(choice, &advertise, own_port, &error),
    };
    let sound = call.listen().await;
    if places.is_none() {
        *places = Some(dialplan(&call, config).await);
    }
    call.end().await;
    judge(choice, &advertise, own_port, &sound)
}

fn judge(choice: AudioChoice, advertise: &str, own_port: bool, sound: &Sound) -> Finding {
    let name = choice;
    match (sound.heard.delay, sound.spoken.delay) {
        (Some(there), Some(back)) => {
            let (round, share) = (there + back, sound.heard.share.min(sound.spoken.share));
            let says =
                format!("{name}: a test call is heard both ways, {:.1} ms there and back", round.as_secs_f64() * 1e3);
            if share < WHOLE {
                let says = format!("{says}, but only {:.0} % of the sound arrives", share * 100.0);
                Finding::warning(
                    AREA,
                    says,
                    "is a network in between that loses packets, or one of the machines overloaded?",
                )
            } else if round > QUICK {
                Finding::warning(
                    AREA,
                    says,
                    "callers wait that much longer for every answer: bring offhook nearer to Asterisk",
                )
            } else {
                Finding::ok(AREA, says)
            }
        }
        // The way from Asterisk to us is that of the advertised address.
        (None, _) => Finding::problem(
            AREA,
            format!("{name}: a test call stands, but nothing that Asterisk sends to {advertise} arrives"),
            unreached(choice.transport, own_port),
        ),
        (Some(_), None) => Finding::problem(
            AREA,
            format!("{name}: a test call stands, but nothing that is sent to Asterisk is heard"),
            match choice.transport {
                Transport::WebSocket => "see Asterisk's log of this moment".to_owned(),
                transport => {
                    let firewall = firewall(transport, own_port);
                    format!("let this machine reach Asterisk's ports (rtp.conf: rtpstart to rtpend){firewall}")
                }
            },
        ),
    }
}

fn failure(choice: AudioChoice, advertise: &str, own_port: bool, error: &ProbeError) -> Finding {
    let name = choice;
    let (says, remedy) = match error {
        ProbeError::Step(_, Some(error)) if error.fault == Fault::Unauthorized => (
            format!("{name}: the ARI user may look, but not act"),
            "take `read_only = yes` out of its section in ari.conf".to_owned(),
        ),
        ProbeError::Step(SetupStep::MediaSocket, _) => {
            (format!("{name}: no port of media.rtp.ports is free"), "choose a range that no other program uses".into())
        }
        ProbeError::Step(SetupStep::MediaConnect | SetupStep::MediaChannel, said) => {
            let said = said.as_ref().map(|error| format!(" ({})", error.fault)).unwrap_or_default();
            (
                format!("{name}: Asterisk opens no audio path to {advertise}{said}"),
                unreached(choice.transport, own_port),
            )
        }
        ProbeError::Step(step, said) => {
            let said = said.as_ref().map(|error| format!(": {}", error.fault)).unwrap_or_default();
            (
                format!("{name}: a test call failed at its step {}{said}", step.label()),
                "see Asterisk's log of this moment".into(),
            )
        }
        error => (format!("{name}: a test call failed: {error}"), "see Asterisk's log of this moment".into()),
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

/// Places of the dialplan that the configuration names, and the examples' own.
async fn dialplan(call: &Standing<'_>, config: &Config) -> Vec<Finding> {
    let mut named: Vec<(String, Place)> = Vec::new();
    for (name, destination) in &config.destinations {
        match &destination.way {
            Way::Dialplan(place) => named.push((format!("destinations.{name}"), place.clone())),
            Way::Dial(group) => named.extend(group.endpoints.iter().filter_map(|endpoint| {
                let (extension, context) = endpoint.strip_prefix("Local/")?.split_once('@')?;
                let context = context.split('/').next()?.to_owned();
                Some((format!("destinations.{name}"), Place { context, extension: extension.into(), priority: 1 }))
            })),
        }
    }
    if !config.voicemail.mailboxes.is_empty() {
        named.push(("voicemail".into(), config.voicemail.place.clone()));
    }
    let mut findings = Vec::new();
    for (setting, Place { context, extension, priority }) in named {
        let place = format!("{extension}@{context}");
        match call.place_exists(&context, &extension, priority).await {
            Some(true) => findings.push(Finding::ok("dialplan", format!("{setting}: {place} exists"))),
            Some(false) => findings.push(Finding::problem(
                "dialplan",
                format!("{setting}: the dialplan has no {place}"),
                "include dialplan/extensions_offhook.conf (or what `offhook init` has written), or name a place that exists",
            )),
            None => findings.push(Finding::warning(
                "dialplan",
                format!("{setting}: whether {place} exists cannot be told"),
                "Asterisk tells it where its module func_dialplan is loaded",
            )),
        }
    }
    findings.push(way_in(call, config).await);
    findings
}

/// ARI lists no dialplan. The examples can be asked for by name; whoever wrote their own knows it.
async fn way_in(call: &Standing<'_>, config: &Config) -> Finding {
    let app = config.asterisk.as_ref().map_or("offhook", |asterisk| &asterisk.app);
    for (context, extension) in EXAMPLES {
        if call.place_exists(context, extension, 1).await == Some(true) {
            return Finding::ok("dialplan", format!("the dialplan has offhook's example: {extension}@{context}"));
        }
    }
    Finding::warning(
        "dialplan",
        format!("which extension leads to Stasis({app}) cannot be told by ARI, and offhook's example is not there"),
        format!("`asterisk -rx 'dialplan show'` must show Stasis({app}) somewhere that your callers reach"),
    )
}
