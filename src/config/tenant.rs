//! From the written tenants to what their tools are checked against.

use super::{problem::Path, raw_tenant as raw, resolve::Resolver};
use crate::tool::{
    declarative::{Endpoint, Method, Surroundings, VOICE_TIMEOUT_CAP},
    memory,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Shorter ones can be guessed.
pub(super) const TOKEN_BYTES_MIN: usize = 16;

/// Whose declarative tools: a folder of them, tokens to change them, and what they may use.
#[derive(Debug, Clone)]
pub struct Tenant {
    pub folder: PathBuf,
    pub tokens: Vec<SecretString>,
    pub locked: bool,
    pub surroundings: Arc<Surroundings>,
    /// What templates read as `tenant.…`.
    pub memory: Map<String, Value>,
    /// The tools' names, as their files say.
    pub names: BTreeSet<String>,
}

impl Resolver<'_> {
    /// `contexts`: all of them, with the tenant that each names. A tool hands a call to those of its own tenant only:
    /// the call's memory has that tenant's settings.
    pub(super) fn tenants(
        &mut self,
        raw: BTreeMap<String, raw::Tenant>,
        contexts: &BTreeMap<String, Option<String>>,
    ) -> BTreeMap<String, Tenant> {
        let section = Path::default().key("tenants");
        // With one tenant, contexts that name none are its own.
        let alone = raw.len() == 1;
        raw.into_iter()
            .map(|(name, raw)| {
                let is_own = |of: &Option<String>| of.as_ref().map_or(alone, |of| *of == name);
                let own = contexts.iter().filter(|(_, of)| is_own(of)).map(|(context, _)| context.clone());
                let tenant = self.tenant(raw, own.collect(), &section.key(&name));
                (name, tenant)
            })
            .collect()
    }

    fn tenant(&mut self, raw: raw::Tenant, contexts: BTreeSet<String>, path: &Path) -> Tenant {
        let folder = self.folder.join(raw.tools.unwrap_or_default());
        let mut tokens = Vec::new();
        for (index, token) in raw.tokens.unwrap_or_default().into_iter().enumerate() {
            let Some(token) = token else { continue };
            if token.len() < TOKEN_BYTES_MIN {
                let message = format!("is shorter than {TOKEN_BYTES_MIN} characters and can be guessed");
                self.problem(&path.key("tokens").index(index), message, None);
            }
            tokens.push(token.into());
        }
        let mut secrets = Vec::new();
        for (index, written) in raw.secrets.unwrap_or_default().into_iter().enumerate() {
            match memory::Path::parse(&written, memory::Scope::Run) {
                // What a run keeps from going out is gathered when it begins; the rest comes to be later.
                Ok(secret) if !matches!(secret.root, memory::Root::User | memory::Root::Tenant) => {
                    let message = format!("a secret is in user or tenant, not in {}", secret.root.label());
                    let hint =
                        "keep it in AI_USER or in settings; for an argument there is policy.secret_args of the tool";
                    self.problem(&path.key("secrets").index(index), message, Some(hint.into()));
                }
                Ok(secret) => secrets.push(secret),
                Err(error) => self.problem(&path.key("secrets").index(index), error.to_string(), None),
            }
        }
        let endpoints: BTreeMap<String, Endpoint> = raw
            .endpoints
            .unwrap_or_default()
            .into_iter()
            .map(|(name, raw)| {
                let method = raw.method.as_deref().and_then(Method::parse);
                (name, Endpoint { url: raw.url.unwrap_or_default(), method })
            })
            .collect();
        let mut settings = raw.settings.unwrap_or_default();
        if !settings.contains_key("endpoints") {
            let urls: Map<String, Value> =
                endpoints.iter().map(|(name, endpoint)| (name.clone(), endpoint.url.clone().into())).collect();
            settings.insert("endpoints".into(), urls.into());
        }
        let request_time =
            self.duration(raw.request_time, VOICE_TIMEOUT_CAP, Duration::from_millis(1), &path.key("request_time"));
        Tenant {
            names: names_in(&folder),
            folder,
            tokens,
            locked: raw.locked.unwrap_or(false),
            memory: Map::from_iter([("settings".to_owned(), json!(settings))]),
            surroundings: Arc::new(Surroundings {
                endpoints,
                contexts,
                allowed_hosts: raw.allowed_hosts.unwrap_or_default(),
                messages: raw.messages.unwrap_or_default(),
                language: raw.language.unwrap_or_else(|| "en".into()),
                shared_context: raw.shared_context.unwrap_or_default(),
                secrets,
                user_writable: raw.user_writable.unwrap_or(false),
                trusted: raw.trusted.unwrap_or(false),
                voice_timeout_cap: Some(request_time),
            }),
        }
    }
}

/// The names of the tools in a folder; a folder that is not there yet has none.
fn names_in(folder: &std::path::Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    let is_tool = |path: &std::path::Path| {
        path.extension().and_then(|extension| extension.to_str()).is_some_and(|e| ["yaml", "yml", "json"].contains(&e))
    };
    let name = |path: PathBuf| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    entries.flatten().map(|entry| entry.path()).filter(|path| is_tool(path)).filter_map(name).collect()
}
