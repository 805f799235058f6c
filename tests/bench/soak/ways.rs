//! The ways in which a call ends: who dials what, how the agent behaves, and how the caller leaves.

use crate::telephone::{Codec, Leaves, Order, Says};
use std::{f32::consts::TAU, fmt::Write as _, net::SocketAddr, path::Path, time::Duration};

/// A caller who waits for the end waits no longer.
const LIMIT: Duration = Duration::from_secs(20);
/// Loud packets that a greeting of 100 ms makes at most; more is the caller's own voice coming back.
const GREETING: u32 = 8;
/// Half a second of the caller's own voice.
const ECHO: u32 = 25;

/// Who ends a call of this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    ByCaller,
    /// Or by whoever the engine connected the caller with.
    ByEngine,
    /// Nobody has answered.
    Unanswered,
}

/// One way over one leg.
#[derive(Debug, Clone)]
pub struct Way {
    pub name: String,
    extension: String,
    leg: Leg,
    pub course: &'static Course,
}

impl Way {
    pub fn order(&self, asterisk: SocketAddr) -> Order<'_> {
        let Course { says, leaves, .. } = *self.course;
        Order { asterisk, extension: &self.extension, codec: self.leg.codec(), says, leaves, limit: LIMIT }
    }
}

#[derive(Debug)]
pub struct Course {
    name: &'static str,
    pub ends: Ends,
    /// The reasons of which it may end, as the engine counts them; none where it never began. Nearly always there is one: a
    /// caller who leaves at once may be seen to before or after audio flows.
    pub reasons: &'static [&'static str],
    /// At least so many packets with sound come, or the line is deaf.
    pub hears: u32,
    says: Says,
    leaves: Leaves,
    /// Of the scripted agent; empty where another provider takes the call.
    script: &'static str,
    /// More about the context.
    more: &'static str,
    legs: &'static [Leg],
}

/// How the audio travels, and the end of the extension's and the context's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    AudioSocket,
    Rtp,
    WebSocket,
    Opus,
    /// `AudioSocket()` in the dialplan.
    WalkIn,
    /// The engine declines the call before it has any.
    None,
}

impl Leg {
    const fn codec(self) -> Codec {
        match self {
            Self::Opus => Codec::Opus,
            Self::AudioSocket | Self::Rtp | Self::WebSocket | Self::WalkIn | Self::None => Codec::MuLaw,
        }
    }
}

const EACH: &[Leg] = &[Leg::AudioSocket, Leg::Rtp, Leg::WebSocket];
/// The extensions of calls that stay: each leg that there is, with the telephone for it.
pub const STEADY: [(&str, Codec); 4] = [
    ("end-echo-a", Codec::MuLaw),
    ("end-echo-r", Codec::MuLaw),
    ("end-echo-w", Codec::MuLaw),
    ("end-echo-o", Codec::Opus),
];
const LONG: &str = "[{ tone: { hertz: 440, for: 60s } }]";

const fn way(name: &'static str, ends: Ends, leaves: Leaves, script: &'static str) -> Course {
    let reasons: &[&str] = match ends {
        Ends::ByCaller => &["caller_hung_up"],
        Ends::ByEngine => &["agent_hung_up"],
        Ends::Unanswered => &["caller_abandoned"],
    };
    Course { name, ends, reasons, hears: 0, says: Says::Silence, leaves, script, more: "", legs: EACH }
}

/// Each over every leg that it names.
static WAYS: [Course; 24] = [
    // The caller's own voice has to come back: it does not on a channel that is deaf.
    Course {
        hears: GREETING + ECHO,
        says: Says::Tone,
        legs: &[Leg::AudioSocket, Leg::Rtp, Leg::WebSocket, Leg::Opus],
        // It is also the call that stays, for as long as a day.
        more: "limits: { call: 24h }",
        ..way(
            "echo",
            Ends::ByCaller,
            Leaves::Heard(GREETING + ECHO),
            "[{ tone: { hertz: 1000, for: 100ms } }, { echo: 1h }, repeat]",
        )
    },
    Course { hears: 5, ..way("caller", Ends::ByCaller, Leaves::Heard(5), LONG) },
    // Whose telephone sends nothing while it is silent: the engine is heard all the same.
    Course { hears: 5, says: Says::Nothing, ..way("silent", Ends::ByCaller, Leaves::Heard(5), LONG) },
    Course {
        reasons: &["caller_hung_up", "caller_abandoned"],
        ..way("at_once", Ends::ByCaller, Leaves::AtAnswer, LONG)
    },
    way("abandons", Ends::Unanswered, Leaves::BeforeAnswer, "[silence]"),
    Course {
        hears: 5,
        ..way(
            "agent",
            Ends::ByEngine,
            Leaves::Never,
            "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: hangup_call } }]",
        )
    },
    Course {
        reasons: &["agent_closed"],
        ..way(
            "lost",
            Ends::ByEngine,
            Leaves::Never,
            "[{ tone: { hertz: 440, for: 300ms } }, { pause: 100ms }, { close: 1011 }]",
        )
    },
    Course {
        reasons: &["agent_closed"],
        ..way("given_back", Ends::ByEngine, Leaves::Never, "[{ tone: { hertz: 440, for: 300ms } }, { close: 1011 }]")
    },
    Course { reasons: &["agent_unreachable"], ..way("unreachable", Ends::ByEngine, Leaves::Never, "") },
    Course { reasons: &["agent_unauthorized"], ..way("unauthorized", Ends::ByEngine, Leaves::Never, "") },
    Course { reasons: &["agent_quota"], ..way("quota", Ends::ByEngine, Leaves::Never, "") },
    Course { reasons: &["agent_throttled"], ..way("throttled", Ends::ByEngine, Leaves::Never, "") },
    Course {
        reasons: &["agent_stalled"],
        ..way("stalled", Ends::ByEngine, Leaves::Never, "[{ tone: { hertz: 440, for: 300ms } }, stall]")
    },
    Course {
        reasons: &["transferred"],
        ..way(
            "transfer",
            Ends::ByEngine,
            Leaves::Never,
            "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: leaves } } }]",
        )
    },
    way(
        "nowhere",
        Ends::ByEngine,
        Leaves::Never,
        "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: nowhere } } }, \
         { pause: 500ms }, { call: { tool: hangup_call } }]",
    ),
    Course {
        reasons: &["transferred"],
        ..way(
            "rung",
            Ends::ByEngine,
            Leaves::Never,
            "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: rung } } }, \
             { pause: 500ms }, { call: { tool: hangup_call } }]",
        )
    },
    way(
        "busy",
        Ends::ByEngine,
        Leaves::Never,
        "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: transfer, arguments: { destination: busy } } }, \
         { pause: 500ms }, { call: { tool: hangup_call } }]",
    ),
    way(
        "unanswered",
        Ends::ByCaller,
        Leaves::After(Duration::from_millis(1_500)),
        "[{ tone: { hertz: 440, for: 200ms } }, { call: { tool: transfer, arguments: { destination: rings } } }]",
    ),
    Course {
        reasons: &["agent_silent"],
        more: "limits: { agent_silence: 1s }",
        ..way("mute", Ends::ByEngine, Leaves::Never, "[silence]")
    },
    Course {
        reasons: &["no_input"],
        more: "no_input: { after: 1s, prompts: 0 }",
        ..way("no_input", Ends::ByEngine, Leaves::Never, "[{ tone: { hertz: 440, for: 300ms } }, { listen: {} }]")
    },
    Course {
        reasons: &["call_too_long"],
        more: "limits: { call: 1s }",
        ..way("long", Ends::ByEngine, Leaves::Never, LONG)
    },
    Course {
        hears: 5,
        more: "audiosocket_id: \"0ff40001\"",
        legs: &[Leg::WalkIn],
        ..way("walk_caller", Ends::ByCaller, Leaves::Heard(5), LONG)
    },
    Course {
        hears: 5,
        more: "audiosocket_id: \"0ff40002\"",
        legs: &[Leg::WalkIn],
        ..way(
            "walk_agent",
            Ends::ByEngine,
            Leaves::Never,
            "[{ tone: { hertz: 440, for: 300ms } }, { call: { tool: hangup_call } }]",
        )
    },
    Course { reasons: &[], legs: &[Leg::None], ..way("declined", Ends::Unanswered, Leaves::Never, "") },
];

/// All ways, or those of these names: `echo` over each leg, `echo-a` over AudioSocket alone.
///
/// # Errors
/// When there is none of a name.
pub fn of(only: &[String]) -> anyhow::Result<Vec<Way>> {
    let known = || WAYS.iter().map(|course| course.name).collect::<Vec<_>>().join(", ");
    let called = |way: &Way, name: &str| way.course.name == name || way.name == name;
    if let Some(unknown) = only.iter().find(|name| !all().any(|way| called(&way, name))) {
        anyhow::bail!("no way to end is called {unknown:?}; there are: {}", known());
    }
    let wanted = |way: &Way| only.is_empty() || only.iter().any(|name| called(way, name));
    Ok(all().filter(wanted).collect())
}

fn all() -> impl Iterator<Item = Way> {
    WAYS.iter().flat_map(|course| course.legs.iter().map(move |leg| (course, *leg))).map(|(course, leg)| {
        let name = match leg {
            Leg::AudioSocket => format!("{}-a", course.name),
            Leg::Rtp => format!("{}-r", course.name),
            Leg::WebSocket => format!("{}-w", course.name),
            Leg::Opus => format!("{}-o", course.name),
            Leg::WalkIn | Leg::None => course.name.to_owned(),
        };
        Way { extension: format!("end-{}", name.replace('_', "-")), name, leg, course }
    })
}

/// The extension of each way.
pub fn dialplan(audiosocket: SocketAddr) -> String {
    let mut text = String::from("[lab-callers](+)\n");
    for Way { name, extension, leg, course } in all() {
        let steps = match leg {
            Leg::AudioSocket | Leg::Rtp | Leg::WebSocket | Leg::Opus => format!("Stasis(offhook,{name})"),
            Leg::None => "Stasis(offhook,nosuch)".to_owned(),
            Leg::WalkIn => {
                let prefix = course.more.split('"').nth(1).unwrap_or_default();
                format!(
                    "Answer()\n same => n,Set(ID=${{UUID()}})\n same => n,AudioSocket({prefix}${{ID:8}},{audiosocket})"
                )
            }
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "exten => {extension},1,{steps}\n same => n,Hangup()");
    }
    text
}

/// What the engine is configured with besides where it finds its Asterisk. `nobody` is an address where nobody listens, and
/// at `refuser` every session is refused.
pub fn configuration(apology: &Path, nobody: SocketAddr, refuser: SocketAddr) -> String {
    let mut yaml = String::from(
        "destinations:\n  leaves: { description: Hangs up, context: lab-targets, extension: leaves }\n  nowhere: { \
         description: Not there, context: lab-targets, extension: nowhere }\n  rung: { description: Answers and leaves, \
         dial: [Local/leaves@lab-targets, Local/rings@lab-targets] }\n  busy: { description: Busy, dial: \
         [Local/busy@lab-targets, PJSIP/nobody] }\n  rings: { description: Rings, dial: [Local/rings@lab-targets] \
         }\nproviders:\n",
    );
    for (name, address) in [
        ("unreachable", nobody.to_string()),
        ("unauthorized", format!("{refuser}/401")),
        ("quota", format!("{refuser}/429/insufficient_quota")),
        ("throttled", format!("{refuser}/429")),
    ] {
        let _ = writeln!(yaml, "  {name}: {{ openai_realtime: {{ api_key: none, base_url: \"ws://{address}\" }} }}");
    }
    // Nobody interrupts an echo, or a tone, by a tone.
    let detector = "detector: { threshold_dbfs: 0 }";
    for Course { name, script, .. } in WAYS.iter().filter(|course| !course.script.is_empty()) {
        let _ = writeln!(yaml, "  {name}: {{ scripted: {{ {detector}, script: {script} }} }}");
    }
    yaml += "contexts:\n";
    for Way { name, leg, course, .. } in all().filter(|way| way.leg != Leg::None) {
        let audio = match leg {
            Leg::Rtp => "rtp/ulaw",
            Leg::WebSocket => "websocket/slin",
            Leg::Opus => "websocket/opus",
            Leg::AudioSocket | Leg::WalkIn | Leg::None => "audiosocket/slin",
        };
        let then = if course.name == "given_back" { "dialplan" } else { "hang_up" };
        // Nobody replaces an agent that is lost.
        let more = match course.more.strip_prefix("limits: {") {
            Some(limits) => format!("limits: {{ recovery: {{ attempts: 0 }},{limits}"),
            None => format!("limits: {{ recovery: {{ attempts: 0 }} }}, {}", course.more),
        };
        let _ = writeln!(
            yaml,
            "  {name}: {{ prompt: Soaked, provider: {}, audio: {audio}, on_failure: {{ apology: \"{}\", then: {then} }}, \
             tools: [hangup_call, transfer], {} }}",
            course.name,
            apology.display(),
            more.trim_end_matches(", ")
        );
    }
    yaml
}

/// A short sound instead of a sentence, as a WAV file of 8 kHz.
pub fn apology() -> Vec<u8> {
    const RATE: u32 = 8_000;
    let sample = |at: u32| (8_000.0 * (TAU * 440.0 * at as f32 / RATE as f32).sin()) as i16;
    let samples: Vec<u8> = (0..RATE * 3 / 10).flat_map(|at| sample(at).to_le_bytes()).collect();
    let size = samples.len() as u32;
    let head = [
        b"RIFF".to_vec(),
        (36 + size).to_le_bytes().to_vec(),
        b"WAVEfmt ".to_vec(),
        16_u32.to_le_bytes().to_vec(),
        // PCM, mono.
        [1_u16, 1].iter().flat_map(|value| value.to_le_bytes()).collect(),
        [RATE, RATE * 2].iter().flat_map(|value| value.to_le_bytes()).collect(),
        [2_u16, 16].iter().flat_map(|value| value.to_le_bytes()).collect(),
        b"data".to_vec(),
        size.to_le_bytes().to_vec(),
    ];
    [head.concat(), samples].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why no call of a soak ends for these reasons.
    const ELSEWHERE: [(&str, &str); 15] = [
        ("operator_ended", "an operator's doing: tests/web and tests/calls end calls so"),
        ("shutdown", "the engine would end with it"),
        ("agent_not_found", "a wrong address: tests/calls::faults"),
        ("agent_handshake", "a vendor that sets nothing up: tests/providers"),
        ("agent_expired", "a vendor's limit is minutes at least: tests/providers"),
        ("agent_protocol", "a vendor that speaks nonsense: tests/providers"),
        ("media_lost", "a path has to break more often than it is mended: tests/calls::repairs"),
        ("setup_answer", "Asterisk has to refuse: asterisk::setup::tests"),
        ("setup_media_socket", "no port may be free: asterisk::setup::tests"),
        ("setup_media_channel", "Asterisk has to refuse: asterisk::setup::tests"),
        ("setup_media_connect", "Asterisk must not reach the engine, for every call: tests/calls"),
        ("setup_bridge", "Asterisk has to refuse: asterisk::setup::tests"),
        ("dialplan_timeout", "a time that the dialplan sets: tests/calls::endings"),
        ("channel_gone", "the events have to be away: tests/calls::stress"),
        ("engine_fault", "a fault of the engine's own: engine::tests"),
    ];

    #[test]
    fn every_reason_is_that_of_a_way_or_is_made_elsewhere() {
        for reason in offhook::call::EndReason::all().iter().map(|reason| reason.label()) {
            let made = WAYS.iter().any(|course| course.reasons.contains(&&*reason));
            let elsewhere = ELSEWHERE.iter().any(|(label, _)| *label == reason);
            assert!(made != elsewhere, "{reason}: made by a way {made}, excused {elsewhere}");
        }
    }

    #[test]
    fn every_way_has_an_extension_and_each_that_is_taken_a_context() {
        let audiosocket = "127.0.0.1:9092".parse().unwrap();
        let yaml = configuration(Path::new("sorry.wav"), audiosocket, audiosocket);
        let plan = dialplan(audiosocket);
        for way in all() {
            assert!(plan.contains(&format!("exten => {},1,", way.extension)), "{}", way.name);
            assert_eq!(yaml.contains(&format!("\n  {}: {{ prompt", way.name)), way.leg != Leg::None, "{}", way.name);
        }
        let found = |name: &str| of(&[name.into()]).map_or(0, |ways| ways.len());
        assert_eq!(["echo", "echo-a", "walk_agent", "nosuch"].map(found), [4, 1, 1, 0]);
        assert!(STEADY.iter().all(|(extension, _)| all().any(|way| way.extension == *extension)));
    }
}
