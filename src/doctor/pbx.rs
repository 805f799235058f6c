//! Asterisk: there, authorised, of a version we know, with the modules that the configuration needs.

use super::Finding;
use crate::{
    asterisk::{
        ari::{AriClient, AriCounters, AriError, Fault},
        events::Loss,
    },
    audio::Encoding,
    config::{AsteriskConfig, AudioChoice, Config, Transport, Way},
    wall_clock,
};
use jiff::Timestamp;
use prometheus::Registry;
use std::collections::{BTreeMap, BTreeSet};

const AREA: &str = "asterisk";
/// The answer's date has whole seconds, and it travelled.
const CLOCK_SLACK_S: i64 = 3;
/// From here on records, signed approvals and certificates are wrong.
const CLOCK_BAD_S: i64 = 60;
/// The version that the tests of this project run against.
const TESTED: u32 = 22;
/// Older ones get no fixes from their makers any more.
const OLDEST: u32 = 20;

/// Without these ARI cannot do what every call needs. Their name says what they are for; the others are explained.
const ALWAYS: [(&str, &str); 9] = [
    ("res_http_websocket", "ARI's events"),
    ("res_stasis", "ARI"),
    ("res_stasis_answer", "answering by ARI"),
    ("res_ari_applications", "ARI"),
    ("res_ari_bridges", "ARI"),
    ("res_ari_channels", "ARI"),
    ("res_ari_events", "ARI's events"),
    ("app_stasis", "Stasis() in the dialplan"),
    ("bridge_simple", "joining two channels"),
];

/// The findings, and the modules that run if Asterisk can be asked for anything at all.
pub(super) async fn examine(
    config: &Config,
    asterisk: &AsteriskConfig,
    running: bool,
) -> (Vec<Finding>, Option<BTreeSet<String>>) {
    let place = place_of_ari(&asterisk.url);
    let ari = match client(asterisk) {
        Ok(ari) => ari,
        Err(finding) => return (vec![finding], None),
    };
    let about = match ari.about().await {
        Ok(about) => about,
        Err(error) => return (vec![refusal(&place, asterisk, &error)], None),
    };
    let mut findings = vec![version(&place, &about.version)];
    findings.extend(about.clock.map(|theirs| clock(wall_clock::now(), theirs)));
    let modules = match ari.modules().await {
        Ok(modules) => modules,
        Err(error) => {
            let remedy = "look at `asterisk -rx 'module show like res_ari'`";
            findings.push(Finding::warning(AREA, format!("it does not tell its modules: {}", error.fault), remedy));
            return (findings, Some(BTreeSet::new()));
        }
    };
    findings.extend(missing(config, &modules));
    findings.push(application(&ari, asterisk, running).await);
    findings.extend(telephones(&ari, config).await);
    (findings, Some(modules))
}

/// The modules that run; none where Asterisk does not tell them.
///
/// # Errors
/// Why it can be asked for nothing at all.
pub(super) async fn modules(asterisk: &AsteriskConfig) -> Result<BTreeSet<String>, Finding> {
    let ari = client(asterisk)?;
    match ari.about().await {
        Ok(_) => Ok(ari.modules().await.unwrap_or_default()),
        Err(error) => Err(refusal(&place_of_ari(&asterisk.url), asterisk, &error)),
    }
}

fn client(asterisk: &AsteriskConfig) -> Result<AriClient, Finding> {
    let counters = AriCounters::new(&Registry::new()).map_err(|error| error.to_string());
    let client = counters.and_then(|counters| AriClient::new(asterisk, counters).map_err(|error| error.to_string()));
    client.map_err(|error| Finding::problem(AREA, error, "write asterisk.url like http://127.0.0.1:8088"))
}

/// Host and port of an address; never what else it may hold.
pub fn place_of_ari(url: &str) -> String {
    let parsed = url::Url::parse(url).ok();
    let place = parsed.and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
    place.unwrap_or_else(|| "asterisk.url".into())
}

/// Why the first request failed.
fn refusal(place: &str, asterisk: &AsteriskConfig, error: &AriError) -> Finding {
    let user = &asterisk.username;
    let (says, remedy) = match &error.fault {
        Fault::Unauthorized => (
            format!("Asterisk at {place} refuses the user \"{user}\" or its password"),
            format!("compare asterisk.password with the section [{user}] of ari.conf, in which a semicolon is written `\\;`; `asterisk -rx 'module reload res_ari.so'` after a change there"),
        ),
        Fault::Unreachable(why) => (
            format!("nobody answers at {place}: {why}"),
            "start Asterisk; where it runs, give http.conf `enabled = yes` with this address and port (`asterisk -rx 'http show status'`), and let it through a firewall in between".into(),
        ),
        Fault::NotFound | Fault::Refused { .. } | Fault::Unreadable(_) | Fault::Conflict { .. } => (
            format!("somebody answers at {place}, but not as ARI: {}", error.fault),
            "does ari.conf have `enabled = yes`, are res_ari and res_ari_asterisk loaded, is a `prefix` of http.conf part of asterisk.url?".into(),
        ),
        Fault::Untrusted(_) => (format!("{place}: {}", error.fault), Loss::Untrusted.describe().into()),
        Fault::OutcomeUnknown(why) => (
            format!("somebody accepts connections at {place} and does not answer: {why}"),
            "is it Asterisk's HTTP port? One that is stuck shows in `asterisk -rx 'core show channels'`".into(),
        ),
    };
    Finding::problem(AREA, says, remedy)
}

fn version(place: &str, version: &str) -> Finding {
    let says = format!("Asterisk {version} at {place} takes user and password");
    let major = version.split(['.', '-']).next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(TESTED) => Finding::ok(AREA, says),
        Some(major) if major < OLDEST => Finding::warning(
            AREA,
            says,
            format!("offhook is tested with Asterisk {TESTED}; this one is older than {OLDEST}"),
        ),
        _ => Finding::ok(AREA, format!("{says} (offhook is tested with Asterisk {TESTED})")),
    }
}

fn clock(ours: Timestamp, theirs: Timestamp) -> Finding {
    let seconds = ours.as_second() - theirs.as_second();
    if seconds.abs() <= CLOCK_SLACK_S {
        return Finding::ok("clock", "the clocks of this machine and of Asterisk agree");
    }
    let way = if seconds > 0 { "ahead of" } else { "behind" };
    let says = format!("this machine's clock is {} s {way} Asterisk's", seconds.abs());
    let remedy = "keep both set by the network (chrony, systemd-timesyncd); `timedatectl` shows which one is wrong";
    match seconds.abs() > CLOCK_BAD_S {
        true => Finding::problem("clock", says, remedy),
        false => Finding::warning("clock", says, remedy),
    }
}

/// What calls may be carried by, each once, in the order of their names; `media.default` is among them.
pub(super) fn audio_choices(config: &Config) -> Vec<AudioChoice> {
    let own = config.contexts.values().filter_map(|context| context.audio);
    let mut choices: Vec<AudioChoice> = std::iter::once(config.media.default).chain(own).collect();
    choices.sort_by_key(|choice| (choice.transport, choice.format.name(), choice.opus));
    choices.dedup();
    choices
}

/// The modules of one way of carrying audio.
pub(super) fn modules_of(choice: AudioChoice) -> Vec<&'static str> {
    let codecs: &[&str] = match (choice.transport, choice.format.encoding) {
        (_, Encoding::Mulaw) => &["codec_ulaw"],
        (_, Encoding::Alaw) => &["codec_alaw"],
        // It sends samples, and hears G.722.
        (Transport::Rtp, Encoding::Linear) => &["codec_resample", "codec_g722"],
        (Transport::AudioSocket, Encoding::Linear) if choice.format.rate == 8_000 => &[],
        (Transport::AudioSocket | Transport::WebSocket, Encoding::Linear) => &["codec_resample"],
    };
    let transport: &[&str] = match choice.transport {
        Transport::AudioSocket => &["res_audiosocket", "chan_audiosocket"],
        Transport::Rtp => &["res_rtp_asterisk", "res_rtp_multicast", "chan_rtp"],
        Transport::WebSocket => &["res_http_websocket", "res_websocket_client", "chan_websocket"],
    };
    transport.iter().chain(codecs).copied().collect()
}

/// Modules that the configuration needs and that do not run.
fn missing(config: &Config, modules: &BTreeSet<String>) -> Vec<Finding> {
    let mut needed: BTreeMap<&str, String> =
        ALWAYS.iter().map(|(module, purpose)| (*module, (*purpose).to_owned())).collect();
    for choice in audio_choices(config) {
        let purpose = choice.to_string();
        needed.extend(modules_of(choice).into_iter().map(|module| (module, purpose.clone())));
    }
    if config.contexts.values().any(|context| context.audiosocket_id.is_some()) {
        needed.insert(
            "app_audiosocket",
            "AudioSocket() in the dialplan, for which contexts have an audiosocket_id".into(),
        );
    }
    if config.contexts.values().any(|context| context.tools.iter().any(|tool| tool == "check_extension_status")) {
        needed.insert("res_ari_device_states", "the tool check_extension_status".into());
        needed.insert("res_ari_endpoints", "the tool check_extension_status".into());
    }
    let wanted = [
        ("func_dialplan", "it tells whether a place to transfer to exists", !config.destinations.is_empty()),
        ("func_timeout", "it tells whether a call ended by TIMEOUT(absolute) of the dialplan", true),
        ("app_voicemail", "the tool leave_voicemail", !config.voicemail.mailboxes.is_empty()),
    ];
    let count = needed.len();
    let absent = needed.into_iter().filter(|(module, _)| !modules.contains(*module));
    let mut findings: Vec<Finding> = absent
        .map(|(module, purpose)| {
            Finding::problem(AREA, format!("the module {module} does not run; it is for: {purpose}"), load(module))
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(AREA, format!("all {count} modules that this configuration needs are loaded")));
    }
    let absent = wanted.into_iter().filter(|(module, _, used)| *used && !modules.contains(*module));
    findings.extend(absent.map(|(module, purpose, _)| {
        Finding::warning(AREA, format!("the module {module} does not run; {purpose}"), load(module))
    }));
    findings
}

fn load(module: &str) -> String {
    format!(
        "`asterisk -rx 'module load {module}.so'`; that modules.conf has no `noload` for it; a package of its own may bring it"
    )
}

/// Whether somebody is connected as our application.
async fn application(ari: &AriClient, asterisk: &AsteriskConfig, running: bool) -> Finding {
    let app = &asterisk.app;
    match (ari.application().await, running) {
        (Ok(Some(_)), true) => Finding::ok(AREA, format!("Stasis({app}) leads to the engine that runs here")),
        (Ok(Some(_)), false) => Finding::warning(
            AREA,
            format!("Asterisk knows an application {app} already, and no engine answers at http.bind"),
            "if another engine is connected under this name, give each its own asterisk.app: they would take calls from each other",
        ),
        (Ok(None), true) => Finding::problem(
            AREA,
            format!("an engine answers at http.bind, but Asterisk knows no application {app}"),
            "does that engine run on this configuration? Its page /ready says what it misses",
        ),
        (Ok(None), false) => {
            Finding::ok(AREA, format!("the application {app} is not connected, as no engine runs yet"))
        }
        (Err(error), _) => {
            let remedy = "is res_ari_applications loaded?";
            Finding::problem(AREA, format!("Asterisk does not say whether {app} is connected: {}", error.fault), remedy)
        }
    }
}

/// Telephones that destinations ring. Places of the dialplan are asked for in a test call.
async fn telephones(ari: &AriClient, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, destination) in &config.destinations {
        let Way::Dial(group) = &destination.way else { continue };
        for endpoint in group.endpoints.iter().filter(|endpoint| !endpoint.starts_with("Local/")) {
            let Some((technology, resource)) = endpoint.split_once('/') else { continue };
            let state = ari.endpoint_state(technology, resource).await;
            if state.as_deref() != Ok("online") {
                let says = format!("destinations.{name}: {endpoint} is not registered now");
                findings.push(Finding::warning("dialplan", says, "callers who are sent there come back to the agent"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade;

    #[test]
    fn a_clock_is_judged_by_how_far_it_is_off() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for (late, grade, says) in [
            (2, Grade::Ok, "agree"),
            (-3, Grade::Ok, "agree"),
            (20, Grade::Warning, "20 s behind"),
            (-3_600, Grade::Problem, "3600 s ahead of"),
        ] {
            let found = clock(now, Timestamp::from_second(1_800_000_000 + late).unwrap());
            assert!(found.grade == grade && found.says.contains(says), "{late}: {found:?}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_it_may_hold() {
        assert_eq!(place_of_ari("https://user:secret@pbx:8089/prefix?x=secret"), "pbx:8089");
        assert_eq!(place_of_ari("http://[fd00::1]"), "[fd00::1]:80");
        assert_eq!(place_of_ari("secret"), "asterisk.url");
    }
}
