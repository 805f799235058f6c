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
        // Digits may be a caller's number.
        let shown = |c: char| if c.is_ascii_digit() { '#' } else { c };
        let value: String = value.chars().filter(|c| !c.is_control()).take(NAME_SHOWN_MAX).map(shown).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audio::Format, config, config::Transport, provider};

    const YAML: &str = r#"
asterisk: { password: x }
default_context: front
media: { default: audiosocket/slin16 }
providers:
  one: { scripted: { script: [{ say: One }] } }
  two: { scripted: { script: [{ say: Two }] } }
contexts:
  front: { prompt: Front, provider: one, greeting: Hello }
  sales: { prompt: Sales, provider: two, audio: rtp/alaw }
"#;

    fn generation(yaml: &str) -> Generation {
        let config = config::load_str("test.yaml", yaml, &|_| None, provider::catalog()).unwrap();
        Generation::build(1, config, &crate::engine::workshop::Workshop::closed())
            .unwrap_or_else(|_| panic!("the providers can be built"))
    }

    fn wish(context: &str, provider: &str, greeting: &str, audio: &str) -> Wish {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Wish { context: some(context), provider: some(provider), greeting: some(greeting), audio: some(audio) }
    }

    #[test]
    fn a_call_that_asks_for_nothing_gets_the_defaults() {
        let granted = grant(&generation(YAML), Wish::default()).unwrap_or_else(|_| panic!("there is a default"));
        assert_eq!((granted.context.name.as_str(), granted.provider_name.as_str()), ("front", "one"));
        assert_eq!(granted.greeting.as_deref(), Some("Hello"));
        assert_eq!((granted.audio.transport, granted.audio.format), (Transport::AudioSocket, Format::SLIN16));
        assert!(granted.refused.is_empty());
    }

    #[test]
    fn the_context_goes_before_the_installation_and_the_call_before_the_context() {
        let generation = generation(YAML);
        let sales = grant(&generation, wish("sales", "", "", "")).unwrap_or_else(|_| panic!("it is there"));
        assert_eq!((sales.provider_name.as_str(), sales.audio.format), ("two", Format::ALAW));
        let call = wish("sales", "one", "Good evening", "rtp/ulaw");
        let call = grant(&generation, call).unwrap_or_else(|_| panic!("it is there"));
        assert_eq!((call.provider_name.as_str(), call.audio.format), ("one", Format::ULAW));
        assert_eq!(call.greeting.as_deref(), Some("Good evening"));
    }

    #[test]
    fn what_is_unknown_is_said_and_the_call_goes_on_without_it() {
        let call = wish("nosuch\n+15550199", "nosuch", "", "rtp/slin24");
        let granted = grant(&generation(YAML), call).unwrap_or_else(|_| panic!("the default takes it"));
        assert_eq!((granted.context.name.as_str(), granted.provider_name.as_str()), ("front", "one"));
        let variables: Vec<_> = granted.refused.iter().map(|refused| refused.variable).collect();
        assert_eq!(variables, ["AI_CONTEXT", "AI_PROVIDER", "AI_AUDIO"]);
        let reason = &granted.refused[0].reason;
        assert!(!reason.contains('\n') && !reason.contains("555"), "no line and no number of a caller's: {reason}");
    }

    #[test]
    fn without_a_default_an_unknown_context_is_no_call() {
        let generation = generation(&YAML.replace("default_context: front", ""));
        let refusal = grant(&generation, wish("nosuch", "", "", "")).err();
        assert_eq!(refusal, Some(NoContext { asked: Some("nosuch".into()) }));
        assert_eq!(grant(&generation, Wish::default()).err(), Some(NoContext { asked: None }));
    }
}
