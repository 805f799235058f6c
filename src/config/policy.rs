//! From the written policy to the rules of a context, and from written rules of a tool to changes of
//! its specification.

use super::{
    problem::{Path, suggest},
    raw::DurationText,
    raw_policy::{self as raw, DeferStep},
    resolve::Resolver,
};
use crate::{
    facts::Residency,
    gate::{self, AuthState, Category, RiskDomain},
    tool::{
        Executor, PolicyRules, ToolKind, ToolSpec, UnknownArgs,
        budget::Budgets,
        policy::{Asker, ConfirmRules, ErrorTypes, OnDefer, RemoteUse, ResultShape, Words},
    },
};
use jiff::SignedDuration;
use secrecy::SecretString;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// All that a context says about its tools.
#[derive(Debug, Clone, Default)]
pub struct ToolPolicy {
    /// What the call core needs.
    pub rules: Arc<PolicyRules>,
    pub identify: Identify,
    pub remote_gate: Option<RemoteGate>,
}

/// How a caller can be identified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identify {
    pub pin_variable: Option<String>,
    pub trusted_contexts: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct RemoteGate {
    pub url: String,
    pub token: Option<SecretString>,
    pub timeout: Duration,
    /// It decides without the built-in gate.
    pub alone: bool,
    pub residency: Option<Residency>,
}

/// What the operator says of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolRules {
    pub access: Option<Category>,
    pub risk_domain: Option<RiskDomain>,
    pub kind: Option<ToolKind>,
    pub requires_confirmation: Option<bool>,
    pub standing_approval: Option<bool>,
    pub confirm: Option<String>,
    pub requires_authorization: Option<AuthState>,
    pub authenticates: Option<AuthState>,
    pub timeout: Option<Duration>,
    pub latency_budget: Option<Duration>,
    pub secret_args: Option<Vec<String>>,
    pub unknown_args: Option<UnknownArgs>,
    pub wait: Option<bool>,
    pub residency: Option<Residency>,
}

impl ToolRules {
    /// The specification as the operator wants it.
    pub fn apply(&self, spec: &mut ToolSpec) {
        fn set<T: Clone>(place: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        set(&mut spec.access, &self.access);
        set(&mut spec.risk_domain, &self.risk_domain);
        if let Some(kind) = self.kind {
            // A budget that nobody chose goes with the kind.
            if spec.latency_budget == spec.kind.latency_target() {
                spec.latency_budget = kind.latency_target();
            }
            spec.kind = kind;
        }
        set(&mut spec.requires_confirmation, &self.requires_confirmation);
        set(&mut spec.standing_approval, &self.standing_approval);
        set(&mut spec.requires_authorization, &self.requires_authorization);
        if let Some(timeout) = self.timeout {
            spec.timeout = timeout + spec.executor.margin();
        }
        set(&mut spec.latency_budget, &self.latency_budget);
        spec.secret_args = self.secrets(spec);
        set(&mut spec.unknown_args, &self.unknown_args);
        set(&mut spec.wait, &self.wait);
        if self.confirm.is_some() {
            spec.confirm_template.clone_from(&self.confirm);
        }
        if self.authenticates.is_some() {
            spec.authenticates = self.authenticates;
        }
        spec.residency = self.residency.or(spec.residency);
    }
}

impl ToolRules {
    /// Arguments that are secret: the operator's word goes before the tool's own, and takes nothing from an action, whose
    /// private arguments the specification has secret (V20).
    pub fn secrets(&self, spec: &ToolSpec) -> Vec<String> {
        let Some(own) = &self.secret_args else { return spec.secret_args.clone() };
        let kept = matches!(spec.executor, Executor::Vam(_)).then_some(&spec.secret_args).into_iter().flatten();
        own.iter().chain(kept.filter(|name| !own.contains(name))).cloned().collect()
    }
}

/// A context's policy: its own words, else those for all.
pub(super) fn merged(own: raw::Policy, all: &raw::Policy) -> raw::Policy {
    let (confirm, gate) = (own.confirm.unwrap_or_default(), own.gate.unwrap_or_default());
    let (identify, budgets) = (own.identify.unwrap_or_default(), own.budgets.unwrap_or_default());
    let all = all.clone();
    let (all_confirm, all_gate) = (all.confirm.unwrap_or_default(), all.gate.unwrap_or_default());
    let (all_identify, all_budgets) = (all.identify.unwrap_or_default(), all.budgets.unwrap_or_default());
    raw::Policy {
        budgets: Some(raw::Budgets {
            retrieval: budgets.retrieval.or(all_budgets.retrieval),
            total: budgets.total.or(all_budgets.total),
        }),
        confirm: Some(raw::Confirm {
            yes_key: confirm.yes_key.or(all_confirm.yes_key),
            no_key: confirm.no_key.or(all_confirm.no_key),
            voice: confirm.voice.or(all_confirm.voice),
            asked_by: confirm.asked_by.or(all_confirm.asked_by),
            read_back: confirm.read_back.or(all_confirm.read_back),
            expires: confirm.expires.or(all_confirm.expires),
            yes: confirm.yes.or(all_confirm.yes),
            no: confirm.no.or(all_confirm.no),
        }),
        on_defer: own.on_defer.or(all.on_defer),
        error_types: own.error_types.or(all.error_types),
        tool_result: own.tool_result.or(all.tool_result),
        max_result_bytes: own.max_result_bytes.or(all.max_result_bytes),
        forward_data: own.forward_data.or(all.forward_data),
        gate: Some(raw::Gate {
            evidence: gate.evidence.or(all_gate.evidence),
            evidence_age: gate.evidence_age.or(all_gate.evidence_age),
            remote: gate.remote.or(all_gate.remote),
        }),
        identify: Some(raw::Identify {
            pin_variable: identify.pin_variable.or(all_identify.pin_variable),
            trusted_contexts: identify.trusted_contexts.or(all_identify.trusted_contexts),
        }),
    }
}

const ONE_MS: Duration = Duration::from_millis(1);

impl Resolver<'_> {
    /// `path` is where problems are told: the context's own section, or the one for all.
    pub(super) fn policy(&mut self, raw: raw::Policy, path: &Path) -> ToolPolicy {
        let (budgets, gate) = (raw.budgets.unwrap_or_default(), raw.gate.unwrap_or_default());
        let identify = raw.identify.unwrap_or_default();
        let default = Budgets::default();
        let gate_path = path.key("gate");
        let remote_gate = gate.remote.and_then(|remote| self.remote_gate(remote, &gate_path.key("remote")));
        let rules = PolicyRules {
            // The context's limits say it.
            tool_time_max: None,
            remote_gate: match &remote_gate {
                None => RemoteUse::None,
                Some(RemoteGate { alone: false, .. }) => RemoteUse::Beside,
                Some(RemoteGate { alone: true, .. }) => RemoteUse::Alone,
            },
            remote_gate_residency: remote_gate.as_ref().and_then(|gate| gate.residency),
            budgets: Budgets {
                retrieval: budgets.retrieval.unwrap_or(default.retrieval),
                total: budgets.total.unwrap_or(default.total),
            },
            confirm: self.confirm(raw.confirm.unwrap_or_default(), &path.key("confirm")),
            gate: self.gate(gate.evidence, gate.evidence_age, &gate_path),
            on_defer: self.defer_step(raw.on_defer, &path.key("on_defer")),
            error_types: match raw.error_types {
                Some(raw::ErrorTypes::PolicyOnly) => ErrorTypes::PolicyOnly,
                Some(raw::ErrorTypes::Full) | None => ErrorTypes::Full,
            },
            result: match raw.tool_result {
                Some(raw::ResultShape::Data) => ResultShape::Data,
                Some(raw::ResultShape::Envelope) | None => ResultShape::Envelope,
            },
            result_bytes_max: raw.max_result_bytes,
            forward_data: raw.forward_data,
        };
        ToolPolicy {
            rules: Arc::new(rules),
            identify: Identify {
                pin_variable: identify.pin_variable,
                trusted_contexts: identify.trusted_contexts.unwrap_or_default(),
            },
            remote_gate,
        }
    }

    fn confirm(&mut self, raw: raw::Confirm, path: &Path) -> ConfirmRules {
        let default = ConfirmRules::default();
        let key = |written: Option<String>, default| written.and_then(|key| key.chars().next()).unwrap_or(default);
        let (yes_key, no_key) = (key(raw.yes_key, default.yes_key), key(raw.no_key, default.no_key));
        if yes_key == no_key {
            self.problem(&path.key("no_key"), "yes and no have the same key", None);
        }
        let lower = |list: Vec<String>| list.into_iter().map(|word| word.to_lowercase()).collect();
        let words = Words::default();
        ConfirmRules {
            yes_key,
            no_key,
            by_voice: raw.voice.unwrap_or(default.by_voice),
            heard: raw.read_back.unwrap_or(default.heard),
            asked_by: match raw.asked_by {
                Some(raw::Asker::Agent) => Asker::Agent,
                Some(raw::Asker::Engine) | None => default.asked_by,
            },
            before: default.before,
            expires: self.duration(raw.expires, default.expires, ONE_MS, &path.key("expires")),
            words: Words {
                yes: raw.yes.map_or(words.yes, lower),
                no: raw.no.map_or(words.no, lower),
                courtesy: words.courtesy,
            },
        }
    }

    fn gate(&mut self, evidence: Option<raw::Evidence>, age: Option<DurationText>, path: &Path) -> gate::Settings {
        let mut settings = gate::Settings::default();
        if matches!(evidence, Some(raw::Evidence::Reference)) {
            settings.evidence_words = gate::EvidenceWords::Reference;
        }
        if let Some(DurationText(written)) = age {
            // Unlike other durations this one may be a week.
            match super::values::duration(&written).and_then(|age| SignedDuration::try_from(age).ok()) {
                Some(age) if age <= gate::Settings::EVIDENCE_AGE_MAX => settings = settings.with_evidence_age_max(age),
                _ => self.problem(&path.key("evidence_age"), "is longer than the contract's 168h", None),
            }
        }
        settings
    }

    fn remote_gate(&mut self, raw: raw::RemoteGate, path: &Path) -> Option<RemoteGate> {
        let url = raw.url?;
        if !super::values::is_http_url(&url) {
            self.problem(&path.key("url"), super::values::NOT_HTTP_URL, None);
        }
        let is_here = super::values::is_loopback_url(&url).then_some(Residency::OnPrem);
        Some(RemoteGate {
            residency: raw.residency.as_deref().and_then(Residency::parse).or(is_here),
            url,
            token: raw.token.filter(|token| !token.is_empty()).map(Into::into),
            timeout: self.duration(raw.timeout, Duration::from_millis(500), ONE_MS, &path.key("timeout")),
            alone: raw.alone.unwrap_or(false),
        })
    }

    fn defer_step(&mut self, raw: Option<DeferStep>, path: &Path) -> OnDefer {
        let Some(DeferStep(step)) = raw else { return OnDefer::default() };
        if let Some(destination) = step.get("transfer").and_then(Value::as_str) {
            self.name(destination, "destinations", "destination", &path.key("transfer"));
            return OnDefer::Transfer(destination.to_owned());
        }
        if let Some(sentence) = step.get("say").and_then(Value::as_str) {
            return OnDefer::Say(sentence.to_owned());
        }
        match step.as_str() {
            Some("take_message") => OnDefer::TakeMessage,
            _ => OnDefer::Explain,
        }
    }

    /// The rules of tools by name; `known` are the tools there are.
    pub(super) fn tool_rules(
        &mut self,
        raw: raw::ToolsRules,
        known: &[&str],
        path: &Path,
    ) -> BTreeMap<String, ToolRules> {
        let state = |written: Option<String>| written.as_deref().and_then(AuthState::parse);
        raw.into_iter()
            .map(|(name, raw)| {
                let path = path.key(&name);
                if !known.contains(&name.as_str()) && !self.is_mcp_tool(&name) {
                    self.problem(&path, "there is no tool of this name", suggest(&name, known));
                }
                let mut duration = |written: Option<DurationText>, key: &str| {
                    let default = Duration::from_secs(1);
                    written.map(|written| self.duration(Some(written), default, ONE_MS, &path.key(key)))
                };
                let rules = ToolRules {
                    timeout: duration(raw.timeout, "timeout"),
                    latency_budget: duration(raw.latency_budget, "latency_budget"),
                    access: raw.access.as_deref().and_then(Category::parse),
                    risk_domain: raw.risk_domain.as_deref().and_then(RiskDomain::parse),
                    kind: raw.kind.as_deref().and_then(ToolKind::parse),
                    requires_confirmation: raw.requires_confirmation,
                    standing_approval: raw.standing_approval,
                    confirm: raw.confirm,
                    requires_authorization: state(raw.requires_authorization),
                    authenticates: state(raw.authenticates),
                    secret_args: raw.secret_args,
                    unknown_args: raw.unknown_args.map(|written| match written.as_str() {
                        "reject" => UnknownArgs::Reject,
                        _ => UnknownArgs::Drop,
                    }),
                    wait: raw.wait,
                    residency: raw.residency.as_deref().and_then(Residency::parse),
                };
                (name, rules)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V20: an operator makes more of an action's arguments secret, and none of the private ones known.
    #[test]
    fn private_arguments_of_an_action_stay_secret() {
        let plain = ToolSpec::new("a", "A.", serde_json::json!({ "type": "object" }));
        let spec =
            ToolSpec { secret_args: vec!["phone".into()], executor: Executor::Vam("vam_market".into()), ..plain };
        let secret = |names: Option<&[&str]>, mut spec: ToolSpec| {
            let secret_args = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            ToolRules { secret_args, ..ToolRules::default() }.apply(&mut spec);
            spec.secret_args
        };
        assert_eq!(secret(None, spec.clone()), ["phone"]);
        assert_eq!(secret(Some(&[]), spec.clone()), ["phone"]);
        assert_eq!(secret(Some(&["village", "phone"]), spec.clone()), ["village", "phone"]);
        assert_eq!(secret(Some(&["village"]), spec.clone()), ["village", "phone"]);
        let elsewhere = ToolSpec { executor: Executor::Declarative, ..spec };
        assert_eq!(secret(Some(&["village"]), elsewhere), ["village"], "of any other tool the operator says it all");
    }

    /// P23: an operator who says that a tool is a look-up gets a look-up's budget; one who names a budget gets that.
    #[test]
    fn a_budget_goes_with_the_kind() {
        let plain = || ToolSpec::new("a", "A.", serde_json::json!({ "type": "object" }));
        let budget = |rules: ToolRules, mut spec: ToolSpec| {
            rules.apply(&mut spec);
            spec.latency_budget
        };
        let kind = || ToolRules { kind: Some(ToolKind::Retrieval), ..ToolRules::default() };
        assert_eq!(budget(kind(), plain()), Duration::from_millis(800));
        let named = Duration::from_millis(250);
        assert_eq!(budget(ToolRules { latency_budget: Some(named), ..kind() }, plain()), named);
        assert_eq!(budget(kind(), ToolSpec { latency_budget: named, ..plain() }), named, "the author's own");
    }

    /// M answer 9: how much of a result a model is told is said for all contexts, and otherwise for one.
    #[test]
    fn each_context_says_how_much_of_a_result_is_told() {
        let yaml = "policy: { max_result_bytes: 4096, forward_data: false }\n\
                    providers: { a: { scripted: { script: [silence] } } }\n\
                    contexts:\n  usual: { prompt: A, provider: a }\n  \
                    own: { prompt: A, provider: a, policy: { max_result_bytes: 256, forward_data: true } }\n";
        let load = |yaml: &str| super::super::load_str("test.yaml", yaml, &|_| None, crate::provider::catalog());
        let config = load(yaml).unwrap();
        let told = |context: &str| {
            let rules = &config.contexts[context].policy.rules;
            (rules.result_bytes_max, rules.forward_data)
        };
        assert_eq!((told("usual"), told("own")), ((Some(4096), Some(false)), (Some(256), Some(true))));
        for size in ["255", "1048577", "-1", "2KiB"] {
            let problems = load(&yaml.replace("4096", size)).unwrap_err();
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert!(told.len() == 1 && told[0].contains("policy.max_result_bytes"), "{told:?}");
        }
    }
}
