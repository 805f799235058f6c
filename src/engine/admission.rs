//! Which agent takes a call: what the dialplan asked for, held against the configuration. Pure.

use super::generation::Generation;
use crate::{
    config::{AudioChoice, Context},
    provider::Provider,
};
use std::sync::Arc;

/// What the dialplan asks for, as text; nothing in it is trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// `AI_CONTEXT`, else the argument of `Stasis()`.
    pub context: Option<String>,
    /// `AI_PROVIDER`
    pub provider: Option<String>,
    /// `AI_GREETING`
    pub greeting: Option<String>,
    /// `AI_AUDIO`, as `transport/format`.
    pub audio: Option<String>,
}

/// What the call gets.
pub struct Granted {
    pub context: Arc<Context>,
    pub provider_name: String,
    pub provider: Arc<dyn Provider>,
    pub greeting: Option<String>,
    pub audio: AudioChoice,
    /// Wishes that could not be granted; each is logged and counted.
    pub refused: Vec<Refused>,
}

/// A variable whose value the configuration does not know. The call goes on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub variable: &'static str,
    pub reason: String,
}

/// There is neither the context that was asked for nor a default one.
#[derive(Debug, PartialEq, Eq)]
pub struct NoContext {
    pub asked: Option<String>,
}

/// Names in log lines are cut here; they come from the dialplan, which may copy them from a caller.
const NAME_SHOWN_MAX: usize = 64;

pub fn grant(generation: &Generation, wish: Wish) -> Result<Granted, NoContext> {
    let config = &generation.config;
    let mut refused = Vec::new();
    let mut refuse = |variable, value: &str, why: &str| {
        let value: String = value.chars().filter(|c| !c.is_control()).take(NAME_SHOWN_MAX).collect();
        refused.push(Refused { variable, reason: format!("\"{value}\" {why}") });
    };
    let asked = wish.context.as_deref().and_then(|name| {
        let context = config.contexts.get(name);
        if context.is_none() {
            refuse("AI_CONTEXT", name, "is not a configured context");
        }
        context
    });
    let default = || config.default_context.as_ref().and_then(|name| config.contexts.get(name));
    let Some(context) = asked.or_else(default) else { return Err(NoContext { asked: wish.context }) };
    let wished = wish.provider.as_ref().and_then(|name| {
        let provider = generation.providers.get_key_value(name);
        if provider.is_none() {
            refuse("AI_PROVIDER", name, "is not a configured provider");
        }
        provider
    });
    let own = || generation.providers.get_key_value(&context.provider);
    let Some((provider_name, provider)) = wished.or_else(own) else {
        return Err(NoContext { asked: wish.context });
    };
    let audio = wish.audio.and_then(|written| match written.parse() {
        Ok(choice) => Some(choice),
        Err(_) => {
            refuse("AI_AUDIO", &written, "is not a transport and format such as audiosocket/slin16 or rtp/ulaw");
            None
        }
    });
    Ok(Granted {
        context: Arc::clone(context),
        provider_name: provider_name.clone(),
        provider: Arc::clone(provider),
        greeting: wish.greeting.or_else(|| context.greeting.clone()),
        audio: audio.or(context.audio).unwrap_or(config.media.default),
        refused,
    })
}
