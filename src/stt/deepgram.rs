//! Deepgram's streaming transcription: Nova over `/v1/listen`, Flux over `/v2/listen`.
//!
//! <https://developers.deepgram.com/reference/speech-to-text/listen-streaming> and
//! <https://developers.deepgram.com/reference/speech-to-text/listen-flux>. The two have an address and a key in
//! common, and not much more: each has its own file for what it says.

pub(super) mod flux;
pub(super) mod nova;
#[cfg(test)]
mod tests;

use super::{
    Hear, Heard, Listener, ListenerKind, Patience,
    session::{self, Talk},
};
use crate::{
    audio::Format,
    call::Usage,
    config::OptionProblem,
    remote::{
        Fault, WebSocketDial, Wire,
        checks::{self, Checked, within},
        deepgram::{Account, encoding},
        kinds,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use url::Url;

const BASE_URL: &str = "wss://api.deepgram.com";
const MODEL: &str = "nova-3";
/// The Flux model for one language, which takes no hints about others.
const FLUX_ENGLISH: &str = "flux-general-en";
/// More are beyond what a recognizer can favour; the vendor asks for fewer than a hundred.
const KEYTERMS_MAX: usize = 100;
/// Audio that was heard is told as used so often, so that a session which is cut off owes no more.
const METERED: Duration = Duration::from_secs(10);
/// Silence that is sent after a turn, in pieces of 80 ms, of which there are so many: no audio follows a turn, and a
/// server says nothing of what it does not hear. It is sent at once and heard as fast as the server can.
const SILENCE_PIECES: usize = 10;
/// What its pieces come to.
const SILENCE: Duration = Duration::from_millis(80 * SILENCE_PIECES as u64);
/// No call is that long; times of a server that counts further are none, and could not be added.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) const KIND: ListenerKind = ListenerKind {
    kind: "deepgram_listen",
    summary: "Deepgram's streaming transcription: Nova and Flux",
    schema: checks::schema::<Options>,
    check: checks::mistakes::<Options>,
    calls: kinds::no_calls,
    language,
    build: |options| Ok(Arc::new(Deepgram { options: checks::read(options)? })),
};

/// Options of `kind: deepgram_listen`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(flatten)]
    account: Account,
    /// Another server that speaks the same protocol; `ws://` is allowed for one nearby. `/v1/listen` or `/v2/listen`
    /// is added.
    #[serde(default = "base_url")]
    base_url: String,
    /// Such as `nova-3`, `nova-2-phonecall`, `flux-general-en` or `flux-general-multi`.
    #[serde(default = "model")]
    model: String,
    /// Without it the model's name says it: `v2` for those that begin with `flux`.
    #[serde(default)]
    version: Option<Version>,
    /// Nova only: BCP-47, such as `de`, or `multi` for several in one conversation.
    #[serde(default)]
    language: Option<String>,
    /// The languages to be expected, for `flux-general-multi` and for Nova with `language: multi`.
    #[serde(default)]
    language_hints: Vec<String>,
    /// Words to be recognized that few people use: names, products. For `nova-3` and Flux.
    #[serde(default)]
    keyterms: Vec<String>,
    /// Nova only, for models before `nova-3`, which know no keyterms; each may end in `:` and a weight.
    #[serde(default)]
    keywords: Vec<String>,
    /// Nova only: sentences with capitals and full stops, which language models read better.
    #[serde(default = "punctuate")]
    punctuate: bool,
    /// Nova only: numbers, dates and the like as they are written.
    #[serde(default)]
    smart_format: Option<bool>,
    /// Numbers as digits.
    #[serde(default)]
    numerals: Option<bool>,
    /// Masks swear words.
    #[serde(default)]
    profanity_filter: Option<bool>,
    /// What is not to be written down, such as `pci`, `ssn`, `numbers`. The agent does not get it either.
    #[serde(default)]
    redact: Vec<String>,
    /// Nova only: the silence after which the vendor takes an utterance for complete. offhook finds the ends of turns
    /// itself and takes this as one more sign; off without it.
    #[serde(default)]
    #[schemars(range(min = 10, max = 5000))]
    endpointing_ms: Option<u32>,
    /// Nova only: such a sign also where noise goes on, by the gap between words.
    #[serde(default)]
    #[schemars(range(min = 1000, max = 5000))]
    utterance_end_ms: Option<u32>,
    /// Flux only: how certain the end of a turn has to be; the server's default is 0.7.
    #[serde(default)]
    #[schemars(range(min = 0.5, max = 1.0))]
    eot_threshold: Option<f64>,
    /// Flux only: from here on the answer is prepared, at the risk that the caller goes on; off without it.
    #[serde(default)]
    #[schemars(range(min = 0.3, max = 0.9))]
    eager_eot_threshold: Option<f64>,
    /// Flux only: silence that ends a turn in any case; the server's default is 5000.
    #[serde(default)]
    #[schemars(range(min = 500, max = 60000))]
    eot_timeout_ms: Option<u32>,
    #[serde(flatten)]
    patience: Patience,
    /// Marks the requests in the vendor's own records of usage.
    #[serde(default)]
    tag: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Version {
    /// Nova.
    #[serde(rename = "v1")]
    V1,
    /// Flux.
    #[serde(rename = "v2")]
    V2,
}

/// Nova hears English unless it is told another language.
fn language(options: &Value) -> Option<String> {
    let options: Options = checks::read(options).ok()?;
    let is_english = options.version() == Version::V1 || options.model == FLUX_ENGLISH;
    options.language.or_else(|| is_english.then(|| "en".into()))
}

fn base_url() -> String {
    BASE_URL.into()
}

fn model() -> String {
    MODEL.into()
}

const fn punctuate() -> bool {
    true
}

impl Options {
    fn version(&self) -> Version {
        let by_name = if self.model.starts_with("flux") { Version::V2 } else { Version::V1 };
        self.version.unwrap_or(by_name)
    }

    fn url(&self, format: Format) -> Result<String, url::ParseError> {
        let version = self.version();
        let path = if version == Version::V1 { "v1/listen" } else { "v2/listen" };
        let mut url = Url::parse(&format!("{}/{path}", self.base_url.trim_end_matches('/')))?;
        let mut query = url.query_pairs_mut();
        let mut set = |name: &str, value: &str| {
            query.append_pair(name, value);
        };
        set("model", &self.model);
        set("encoding", encoding(format));
        set("sample_rate", &format.rate.to_string());
        if version == Version::V1 {
            set("channels", "1");
            set("interim_results", "true");
            set("punctuate", if self.punctuate { "true" } else { "false" });
            set("endpointing", &self.endpointing_ms.map_or("false".into(), |pause| pause.to_string()));
        }
        let texts = [("language", &self.language), ("tag", &self.tag)];
        let flags = [
            ("smart_format", self.smart_format),
            ("numerals", self.numerals),
            ("profanity_filter", self.profanity_filter),
            ("mip_opt_out", self.account.mip_opt_out.then_some(true)),
        ];
        let numbers = [
            ("utterance_end_ms", self.utterance_end_ms.map(f64::from)),
            ("eot_threshold", self.eot_threshold),
            ("eager_eot_threshold", self.eager_eot_threshold),
            ("eot_timeout_ms", self.eot_timeout_ms.map(f64::from)),
        ];
        let lists = [
            ("language_hint", &self.language_hints),
            ("keyterm", &self.keyterms),
            ("keywords", &self.keywords),
            ("redact", &self.redact),
        ];
        texts.iter().for_each(|(name, text)| text.iter().for_each(|text| set(name, text)));
        flags.iter().for_each(|(name, flag)| flag.iter().for_each(|flag| set(name, &flag.to_string())));
        numbers.iter().for_each(|(name, number)| number.iter().for_each(|number| set(name, &number.to_string())));
        lists.iter().for_each(|(name, list)| list.iter().for_each(|item| set(name, item)));
        drop(query);
        Ok(url.into())
    }
}

impl Checked for Options {
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.account.problems();
        problems.extend(checks::web_socket("base_url", &self.base_url, BASE_URL));
        if self.base_url.contains(['?', '#']) {
            problems.push(OptionProblem::new("base_url", "has a query; the options below make it"));
        }
        problems.extend(checks::name("model", &self.model, "model name", MODEL));
        let nova = [
            ("language", self.language.is_some()),
            ("keywords", !self.keywords.is_empty()),
            ("smart_format", self.smart_format.is_some()),
            ("endpointing_ms", self.endpointing_ms.is_some()),
            ("utterance_end_ms", self.utterance_end_ms.is_some()),
        ];
        let flux = [
            ("eot_threshold", self.eot_threshold.is_some()),
            ("eager_eot_threshold", self.eager_eot_threshold.is_some()),
            ("eot_timeout_ms", self.eot_timeout_ms.is_some()),
        ];
        let (strange, other) = match self.version() {
            Version::V1 => (&flux[..], "is for Flux; this is version v1"),
            Version::V2 => (&nova[..], "is for Nova; this is version v2"),
        };
        let strange = strange.iter().filter(|(_, set)| *set);
        problems.extend(strange.map(|(path, _)| {
            OptionProblem::new(*path, other)
                .hint("remove it, or choose another model; `version` says it of unusual names")
        }));
        if !self.language_hints.is_empty() && self.model == FLUX_ENGLISH {
            let problem = OptionProblem::new("language_hints", format!("mean nothing to {FLUX_ENGLISH}"));
            problems.push(problem.hint("set model: flux-general-multi"));
        }
        for (path, list) in [("keyterms", &self.keyterms), ("keywords", &self.keywords)] {
            if list.len() > KEYTERMS_MAX {
                problems.push(OptionProblem::new(path, format!("are more than {KEYTERMS_MAX}")));
            }
        }
        problems.extend(within("endpointing_ms", self.endpointing_ms.map(f64::from), 10.0, 5_000.0));
        problems.extend(within("utterance_end_ms", self.utterance_end_ms.map(f64::from), 1_000.0, 5_000.0));
        problems.extend(within("eot_threshold", self.eot_threshold, 0.5, 1.0));
        problems.extend(within("eager_eot_threshold", self.eager_eot_threshold, 0.3, 0.9));
        problems.extend(self.patience.problems());
        problems.extend(within("eot_timeout_ms", self.eot_timeout_ms.map(f64::from), 500.0, 60_000.0));
        problems
    }
}

struct Deepgram {
    options: Options,
}

impl Listener for Deepgram {
    fn kind(&self) -> &'static str {
        KIND.kind
    }

    fn retries(&self) -> u32 {
        self.options.patience.retries
    }

    fn turn_max(&self) -> Duration {
        self.options.patience.turn()
    }

    /// Flux always does.
    fn ends_turns(&self) -> bool {
        let Options { endpointing_ms, utterance_end_ms, .. } = &self.options;
        self.options.version() == Version::V2 || endpointing_ms.is_some() || utterance_end_ms.is_some()
    }

    /// The vendor takes every format of a leg.
    fn format(&self, leg: Format) -> Format {
        leg
    }

    fn listen(
        &self,
        format: Format,
        input: mpsc::Receiver<Hear>,
        words: mpsc::Sender<Heard>,
    ) -> BoxFuture<'static, Result<(), Fault>> {
        let url = match self.options.url(format) {
            Ok(url) => url,
            Err(error) => return async move { Err(Fault::Unreachable(error.to_string())) }.boxed(),
        };
        let dial = WebSocketDial { url, headers: vec![("authorization", self.options.account.authorization())] };
        let turn_max = self.options.patience.turn();
        match self.options.version() {
            Version::V1 => session::run(dial, nova::Nova::new(format, turn_max), input, words).boxed(),
            Version::V2 => session::run(dial, flux::Flux::new(format, turn_max), input, words).boxed(),
        }
    }
}

/// How much audio the vendor was sent: its own clock, and what it is paid for.
struct AudioClock {
    format: Format,
    bytes: usize,
    metered: Duration,
}

impl AudioClock {
    const fn new(format: Format) -> Self {
        Self { format, bytes: 0, metered: Duration::ZERO }
    }

    fn now(&self) -> Duration {
        self.format.duration_of(self.bytes)
    }

    /// What has to be told as used, now and then.
    fn sent(&mut self, bytes: usize) -> Option<Heard> {
        self.bytes += bytes;
        if self.now() - self.metered >= METERED { self.meter() } else { None }
    }

    /// Sends [`SILENCE`].
    fn be_silent(&mut self, talk: &mut Talk) {
        let piece = Bytes::from(vec![self.format.silence(); 4 * self.format.frame_bytes()]);
        for _ in 0..SILENCE_PIECES {
            talk.words.extend(self.sent(piece.len()));
            talk.wires.push_back(Wire::Binary(piece.clone()));
        }
    }

    fn meter(&mut self) -> Option<Heard> {
        let transcribed = self.now() - self.metered;
        self.metered = self.now();
        (!transcribed.is_zero()).then(|| Heard::Usage(Usage { transcribed, ..Usage::default() }))
    }
}

/// Seconds as the vendor writes them; what is none is left out.
fn seconds(written: Option<f64>) -> Option<Duration> {
    written.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).filter(|time| *time <= TIME_MAX)
}

/// What the vendor says went wrong. Its sentences may hold anything.
fn refused(message: &Value) -> Fault {
    let word = |key: &str| crate::remote::code(&message.get(key)?.as_str()?.to_ascii_lowercase().replace('-', "_"));
    let code = word("code").or_else(|| word("variant"));
    let status = match code.as_deref() {
        Some(code) if code.contains("too_many_requests") || code.contains("rate_limit") => 429,
        Some(code) if code.contains("internal") || code.contains("unavailable") || code.contains("timeout") => 500,
        _ => 400,
    };
    Fault::Reported { like: Some(status), code }
}
