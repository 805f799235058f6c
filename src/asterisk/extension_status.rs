//! `check_extension_status`: whether somebody's telephone is free, before a caller is sent there.
//!
//! Only extensions that the configuration allows are looked up, so that the model cannot take an
//! inventory of the exchange; whether one that is not allowed exists is not told.

use super::ari::AriClient;
use crate::{
    config::ExtensionsConfig,
    facts::CallFacts,
    gate::{Category, RiskDomain},
    tool::{Approved, CHECK_EXTENSION_STATUS, SideEffects, Tool, ToolError, ToolKind, ToolOutcome, ToolSpec},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use serde_json::{Value, json};

/// As a telephone keypad writes it; longer ones are no extensions.
const EXTENSION_PATTERN: &str = "^[0-9*#]{1,20}$";

/// What the model is told of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Available,
    InUse,
    Ringing,
    Unavailable,
    Unknown,
}

impl Status {
    /// Asterisk's device states, see `core show help devstate` and `AST_DEVICE_*`.
    fn of_device(state: &str) -> Self {
        match state {
            "NOT_INUSE" => Self::Available,
            "INUSE" | "BUSY" | "ONHOLD" => Self::InUse,
            "RINGING" | "RINGINUSE" => Self::Ringing,
            "UNAVAILABLE" | "INVALID" => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::InUse => "in_use",
            Self::Ringing => "ringing",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }

    /// The end of a sentence that begins with the extension.
    const fn describe(self) -> &'static str {
        match self {
            Self::Available => "is available",
            Self::InUse => "is on another call",
            Self::Ringing => "is ringing",
            Self::Unavailable => "is not available",
            Self::Unknown => "is in a state that cannot be told",
        }
    }
}

/// The tool, for the contexts that list it.
pub struct ExtensionStatus {
    ari: AriClient,
    config: ExtensionsConfig,
}

impl ExtensionStatus {
    pub const fn new(ari: AriClient, config: ExtensionsConfig) -> Self {
        Self { ari, config }
    }
}

impl Tool for ExtensionStatus {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "properties": { "extension": { "type": "string", "pattern": EXTENSION_PATTERN } },
            "required": ["extension"],
            "additionalProperties": false
        });
        ToolSpec {
            kind: ToolKind::Retrieval,
            latency_budget: ToolKind::Retrieval.latency_target(),
            side_effects: SideEffects::ReadOnly,
            idempotent: true,
            access: Category::PublicRead,
            risk_domain: RiskDomain::CustomerSupport,
            ..ToolSpec::new(
                CHECK_EXTENSION_STATUS,
                "Tell whether an extension of the office is available, on another call, ringing or not available.",
                parameters,
            )
        }
    }

    fn run(&self, call: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        let extension = call.arguments().get("extension").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.config.allow.iter().any(|pattern| matches(pattern, &extension)) {
            let refusal = ToolOutcome::failed(ToolError::NotFound, "This extension is not in the directory.");
            return std::future::ready(refusal).boxed();
        }
        let named = |device: &String| device.replace("{extension}", &extension);
        let device = named(&self.config.device);
        let do_not_disturb: Vec<String> = self.config.do_not_disturb.iter().map(named).collect();
        let ari = self.ari.clone();
        async move {
            let (status, quiet) = tokio::join!(status(&ari, &device), wants_quiet(&ari, &do_not_disturb));
            match status {
                Some(_) if quiet => ToolOutcome::done(
                    format!(
                        "Extension {extension} {}: it does not want to be disturbed.",
                        Status::Unavailable.describe()
                    ),
                    json!({ "extension": extension, "status": Status::Unavailable.label() }),
                ),
                Some(status) => ToolOutcome::done(
                    format!("Extension {extension} {}.", status.describe()),
                    json!({ "extension": extension, "status": status.label() }),
                ),
                None => ToolOutcome::failed(ToolError::Transient, "The telephone system did not answer."),
            }
        }
        .boxed()
    }
}

/// `None`: Asterisk could not be asked.
async fn status(ari: &AriClient, device: &str) -> Option<Status> {
    let state = ari.device_state(device).await.map_err(|error| tracing::warn!(%error, "no state of a device")).ok()?;
    let status = Status::of_device(&state);
    if status != Status::Unknown {
        return Some(status);
    }
    // A device that nobody has called yet may have no state; whether a telephone is registered is
    // known all the same.
    let Some((technology, resource)) = device.split_once('/') else { return Some(status) };
    Some(match ari.endpoint_state(technology, resource).await.as_deref() {
        Ok("online") => Status::Available,
        Ok("offline") => Status::Unavailable,
        _ => status,
    })
}

/// Whether one of these devices says so. One that cannot be asked says nothing: whether the telephone is free is known all the same.
async fn wants_quiet(ari: &AriClient, devices: &[String]) -> bool {
    let states = join_all(devices.iter().map(|device| ari.device_state(device))).await;
    states.into_iter().any(|state| match state {
        // FreePBX sets BUSY; a device that was never set is UNKNOWN.
        Ok(state) => matches!(&*state, "INUSE" | "BUSY" | "ONHOLD" | "RINGING" | "RINGINUSE" | "UNAVAILABLE"),
        Err(error) => {
            tracing::warn!(%error, "no state of a device");
            false
        }
    })
}

/// Whether an extension fits a pattern of the dialplan (without its `_`).
fn matches(pattern: &str, extension: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut extension = extension.chars();
    loop {
        let (wanted, digit) = match (pattern.next(), extension.next()) {
            (Some(wanted), Some(digit)) => (wanted, digit),
            (None, None) => return true,
            _ => return false,
        };
        let fits = match wanted {
            'X' => digit.is_ascii_digit(),
            'Z' => matches!(digit, '1'..='9'),
            'N' => matches!(digit, '2'..='9'),
            '[' => {
                let set: Vec<char> = pattern.by_ref().take_while(|c| *c != ']').collect();
                in_set(&set, digit)
            }
            literal => literal == digit,
        };
        if !fits {
            return false;
        }
    }
}

/// `15-7`: one, or five to seven.
fn in_set(set: &[char], digit: char) -> bool {
    match set {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&digit) || in_set(rest, digit),
        [one, rest @ ..] => *one == digit || in_set(rest, digit),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        asterisk::fake::Stage,
        facts::{CallFacts, CallId},
        tool::{Admission, CallPolicy, Opening, ToolCall, ToolCallId, Toolbox},
    };
    use std::sync::Arc;
    use tokio::time::Instant;

    fn facts() -> CallFacts {
        CallFacts::new(CallId::random(), "front", "test")
    }

    /// What the model is told when it asks; the fake's devices are in the state their name tells.
    async fn asked(stage: &Stage, device: &str, extension: &str) -> ToolOutcome {
        asked_beside(stage, device, &[], extension).await
    }

    async fn asked_beside(stage: &Stage, device: &str, do_not_disturb: &[&str], extension: &str) -> ToolOutcome {
        let do_not_disturb = do_not_disturb.iter().map(|&device| device.to_owned()).collect();
        let allow = vec!["1XX".into(), "2[0-4]Z".into()];
        let config = ExtensionsConfig { allow, device: device.into(), do_not_disturb };
        let tool: Arc<dyn Tool> = Arc::new(ExtensionStatus::new(stage.ari.clone(), config));
        let toolbox = Toolbox::new([Arc::clone(&tool)]).unwrap();
        let arguments = json!({ "extension": extension }).to_string();
        let call = ToolCall { id: "c1".into(), name: CHECK_EXTENSION_STATUS.into(), arguments };
        let began = (Instant::now().into_std(), jiff::Timestamp::UNIX_EPOCH);
        let opening = Opening { caller_known: true, ..Opening::default() };
        let mut policy = CallPolicy::new(Arc::new(toolbox), Arc::default(), opening, began);
        let id = ToolCallId::random();
        match policy.admit(id, &call, began.0) {
            Admission::Run { call, .. } => tool.run(*call, &facts()).await,
            Admission::Answered(answer) => ToolOutcome::failed(answer.error.expect("a refusal"), answer.output),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn every_state_of_a_device_is_one_of_five_words() {
        let stage = Stage::up().await;
        for (state, status) in [
            ("not_inuse", "available"),
            ("inuse", "in_use"),
            ("busy", "in_use"),
            ("onhold", "in_use"),
            ("ringing", "ringing"),
            ("ringinuse", "ringing"),
            ("unavailable", "unavailable"),
            ("invalid", "unavailable"),
            // No state: whether somebody is registered decides.
            ("on", "available"),
            ("off", "unavailable"),
        ] {
            let ToolOutcome::Done(done) = asked(&stage, &format!("PJSIP/{state}"), "100").await else {
                panic!("{state}")
            };
            assert_eq!(done.data, json!({ "extension": "100", "status": status }), "{state}");
            assert!(done.actions.is_empty());
        }
    }

    /// FreePBX: the hint of an extension is its telephone and `Custom:DND…`.
    #[tokio::test]
    async fn who_does_not_want_to_be_disturbed_is_not_available_whatever_the_telephone_says() {
        let stage = Stage::up().await;
        for (device, do_not_disturb, status) in [
            ("PJSIP/not_inuse", &["Custom/not_inuse", "Custom/busy"][..], "unavailable"),
            ("PJSIP/inuse", &["Custom/inuse"], "unavailable"),
            ("PJSIP/not_inuse", &["Custom/not_inuse"], "available"),
            ("PJSIP/not_inuse", &["Custom/unknown"], "available"),
            ("PJSIP/inuse", &[], "in_use"),
        ] {
            let ToolOutcome::Done(done) = asked_beside(&stage, device, do_not_disturb, "100").await else {
                panic!("{device}")
            };
            assert_eq!(done.data, json!({ "extension": "100", "status": status }), "{device} {do_not_disturb:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_not_looked_up() {
        let stage = Stage::up().await;
        for extension in ["300", "1000", "10", "250", "200", ""] {
            let outcome = asked(&stage, "PJSIP/inuse", extension).await;
            assert!(matches!(outcome.error(), Some(ToolError::NotFound | ToolError::Validation)), "{extension}");
        }
        for extension in ["100", "199", "201", "249"] {
            assert_eq!(asked(&stage, "PJSIP/inuse", extension).await.error(), None, "{extension}");
        }
    }

    #[tokio::test]
    async fn an_asterisk_that_does_not_answer_is_told_as_such() {
        let stage = Stage::up().await;
        stage.fake.now().faults.insert("GET PJSIP%2Finuse", 500);
        assert_eq!(asked(&stage, "PJSIP/inuse", "100").await.error(), Some(ToolError::Transient));
    }

    #[test]
    fn patterns_are_those_of_the_dialplan() {
        for (pattern, extension, fits) in [
            ("100", "100", true),
            ("100", "1000", false),
            ("NXX", "200", true),
            ("NXX", "100", false),
            ("ZX", "10", true),
            ("ZX", "01", false),
            ("1[15-7]", "16", true),
            ("1[15-7]", "11", true),
            ("1[15-7]", "14", false),
            ("*9X", "*98", true),
        ] {
            assert_eq!(matches(pattern, extension), fits, "{pattern} {extension}");
        }
    }
}
