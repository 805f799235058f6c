//! An agent that follows a script, in this process: for the demo, for tests, for measurements. It
//! behaves like a vendor's: it detects the caller's speech, cancels its own answer when interrupted,
//! calls tools, and can be told to fail.
//!
//! Its quirk: what the caller said is not understood and has no transcript.

mod actor;
mod ears;
mod options;
mod speech;
#[cfg(test)]
mod tests;
mod words;

use super::{Agent, AgentSetup, Among, Embedded, Provider, ProviderKind};
use crate::{
    audio::Format,
    call::{AgentCommand, AgentEvent, AgentLoss, AgentTraits},
    config::OptionProblem,
    remote::checks,
    speech::{VoiceError, wait_for},
};
use actor::{Actor, Input, Output};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use options::{Options, VoiceKind};
use serde::Deserialize as _;
use serde_json::Value;
use speech::Speech;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use words::Names;

pub(super) const KIND: ProviderKind = ProviderKind {
    kind: "scripted",
    summary: "An agent in this process that follows a script; needs no key",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: |options| Options::deserialize(options).map(|options| options.tools()).unwrap_or_default(),
    names: |_| Vec::new(),
    build,
};

fn build(options: &Value, _: &Among<'_>) -> Result<Arc<dyn Provider>, Vec<OptionProblem>> {
    let options: Options = checks::read(options)?;
    let speech = Speech::new(options.voice, options.espeak.clone());
    prepare(&speech, &options).map_err(|error| {
        let problem = OptionProblem::new("voice", error.to_string());
        vec![problem.hint("check `espeak`, or write `voice: tone`")]
    })?;
    Ok(Arc::new(Scripted { options: Arc::new(options), speech: Arc::new(speech) }))
}

/// Renders the script's lines once, when it is loaded.
fn prepare(speech: &Speech, options: &Options) -> Result<(), VoiceError> {
    if options.voice == VoiceKind::Tone {
        return Ok(());
    }
    wait_for(|| speech.prepare(options.lines()))?
}

struct Scripted {
    options: Arc<Options>,
    speech: Arc<Speech>,
}

impl Provider for Scripted {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits { detects_speech: true, cancels_on_speech: true, truncates: true, ..AgentTraits::PLAIN }
    }

    fn dialect(&self) -> Option<crate::tool::schemas::Dialect> {
        None
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Embedded(self)
    }
}

impl Embedded for Scripted {
    fn play(
        &self,
        setup: AgentSetup,
        _ready_max: Duration,
        commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) -> BoxFuture<'static, Option<AgentLoss>> {
        play(self.options.clone(), self.speech.clone(), setup.leg, commands, events).boxed()
    }
}

/// Carries messages, time and rendered lines to the actor, and its outputs back.
async fn play(
    options: Arc<Options>,
    speech: Arc<Speech>,
    format: Format,
    mut commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<AgentEvent>,
) -> Option<AgentLoss> {
    let mut actor = Actor::new(options, speech.clone(), format, Instant::now().into_std());
    let mut names = Names::default();
    let mut outputs = Vec::new();
    events.send(AgentEvent::Ready).await.ok()?;
    let mut rendering = FuturesUnordered::new();
    loop {
        for output in outputs.drain(..) {
            let event = match output {
                Output::Send(message) => words::event(message),
                Output::Audio { answer, audio } => names.audio(answer, audio),
                Output::Render { answer, text, keep } => {
                    let speech = speech.clone();
                    rendering.push(async move { (answer, render(&speech, &text, format, keep).await) });
                    continue;
                }
                Output::End => return Some(AgentLoss::Closed),
                Output::Stall => return std::future::pending().await,
            };
            events.send(event).await.ok()?;
        }
        tokio::select! {
            biased;
            command = commands.recv() => {
                if let Some(input) = words::input(command?) {
                    actor.step(input, Instant::now().into_std(), &mut outputs);
                }
            }
            Some((answer, audio)) = rendering.next() => {
                actor.step(Input::Rendered { answer, audio }, Instant::now().into_std(), &mut outputs);
            }
            () = until(actor.deadline()) => actor.on_deadline(Instant::now().into_std(), &mut outputs),
        }
    }
}

/// A line that cannot be spoken is sounded, so that the call goes on.
async fn render(speech: &Speech, text: &str, format: Format, keep: bool) -> bytes::Bytes {
    match speech.render(text, format, keep).await {
        Ok(audio) => audio,
        Err(error) => {
            tracing::warn!(%error, "a line could not be spoken; a tone takes its place");
            let tone = options::Tone { hertz: 440.0, r#for: options::Span(Duration::from_secs(1)) };
            speech::tone_of(tone, format)
        }
    }
}

/// What of a tool's answer a voice can say: the sentence in it, or the one about its failure.
fn words_of(output: &str) -> Option<String> {
    let output: Value = serde_json::from_str(output).ok()?;
    let failed = || output.pointer("/error/message");
    let words = output.get("message").filter(|message| message.is_string()).or_else(failed)?;
    words.as_str().map(str::trim).filter(|words| !words.is_empty()).map(str::to_owned)
}

async fn until(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline)).await,
        None => std::future::pending().await,
    }
}
