//! What providers cost, by the operator's own table: offhook knows no price by itself.

use super::{
    ProviderConfig,
    problem::{Path, Report, suggest},
    raw_price::{self as raw, MinutePrices, TokenPrices},
    resolve::Resolver,
    tree::Node,
};
use crate::call::Usage;
use jiff::{ToSpan as _, civil::Date};
use std::{collections::BTreeMap, sync::Arc};

/// Vendors change their prices about once a year.
const STALE_AFTER_DAYS: i64 = 365;

/// The table, and which of its entries each provider has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    entries: BTreeMap<String, Arc<Price>>,
    /// Entry of `providers` → key of `entries`.
    chosen: BTreeMap<String, String>,
}

/// What the units of one provider cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    pub currency: String,
    pub date: Date,
    pub source: String,
    tokens: TokenPrices,
    minutes: MinutePrices,
}

/// What some usage costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    pub amount: f64,
    /// What was used and has no price, so that the amount is too small.
    pub unpriced: Vec<&'static str>,
}

impl Prices {
    /// Of an entry of `providers`.
    pub fn of(&self, provider: &str) -> Option<&Arc<Price>> {
        self.entries.get(self.chosen.get(provider)?)
    }

    /// Provider and currency, wherever there is a price.
    pub fn currencies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.chosen.keys().filter_map(|provider| Some((provider.as_str(), self.of(provider)?.currency.as_str())))
    }
}

impl Price {
    /// Each part of the usage once, at its own price.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let (tokens, minutes) = (&self.tokens, &self.minutes);
        let (cached_text, cached_audio) = usage.input_cached();
        let fresh_text = usage.input_text_tokens.saturating_sub(cached_text);
        let fresh_audio = usage.input_audio_tokens.saturating_sub(cached_audio);
        let million = |count: u64| count as f64 / 1e6;
        let transcribed = usage.transcribed.as_secs_f64() / 60.0;
        let parts = [
            ("input_text", million(fresh_text), tokens.input_text),
            ("input_audio", million(fresh_audio), tokens.input_audio),
            ("input_cached_text", million(cached_text), tokens.input_cached_text.or(tokens.input_text)),
            ("input_cached_audio", million(cached_audio), tokens.input_cached_audio.or(tokens.input_audio)),
            ("output_text", million(usage.output_text_tokens), tokens.output_text),
            ("output_audio", million(usage.output_audio_tokens), tokens.output_audio),
            ("output_thinking", million(usage.output_thinking_tokens), tokens.output_thinking.or(tokens.output_text)),
            ("transcription_text", million(usage.transcription_text_tokens), tokens.transcription_text),
            ("transcription_audio", million(usage.transcription_audio_tokens), tokens.transcription_audio),
            ("transcription_output", million(usage.transcription_output_tokens), tokens.transcription_output),
            ("transcribed", transcribed, minutes.transcribed),
            // Every session is connected; only some are billed by it.
            ("connected", usage.connected.as_secs_f64() / 60.0, Some(minutes.connected.unwrap_or(0.0))),
        ];
        let amount = parts.iter().filter_map(|(_, units, price)| Some(units * (*price)?)).sum();
        let unpriced = parts.iter().filter(|(_, units, price)| *units > 0.0 && price.is_none());
        Cost { amount, unpriced: unpriced.map(|(part, ..)| *part).collect() }
    }
}

impl Resolver<'_> {
    pub(super) fn prices(
        &mut self,
        raw: BTreeMap<String, raw::Price>,
        providers: &BTreeMap<String, ProviderConfig>,
    ) -> Prices {
        let section = Path::default().key("prices");
        let mut entries = BTreeMap::new();
        for (key, raw) in raw {
            let path = section.key(&key);
            match key.split_once('/') {
                None => self.name(&key, "providers", "provider", &path),
                Some((kind, _)) if self.catalog.provider(kind).is_some() => {}
                Some((kind, _)) => {
                    let kinds: Vec<&str> = self.catalog.providers.iter().map(|known| known.kind).collect();
                    let hint = suggest(kind, &kinds);
                    self.problem(&path, format!("unknown kind of provider {kind:?}"), hint);
                }
            }
            if raw.per_million_tokens.is_none() && raw.per_minute.is_none() && !self.mentions(&path) {
                let hint = "add per_million_tokens or per_minute";
                self.problem(&path, "there is no price in it", Some(hint.into()));
            }
            entries.insert(key, Arc::new(self.price(raw, &path)));
        }
        let chosen = providers.iter().filter_map(|(name, provider)| {
            let by_model = || Some(format!("{}/{}", provider.kind, self.model(provider)?));
            let key = Some(name.clone()).filter(|key| entries.contains_key(key)).or_else(by_model)?;
            entries.contains_key(&key).then(|| (name.clone(), key))
        });
        Prices { chosen: chosen.collect(), entries }
    }

    fn price(&mut self, raw: raw::Price, path: &Path) -> Price {
        let written = raw.date.unwrap_or_default();
        let date = written.parse().unwrap_or_else(|_| {
            let path = path.key("date");
            if !self.mentions(&path) {
                let message = format!("{} is no day of the calendar", self.shown(&path, &written));
                self.problem(&path, message, Some("write it as 2026-11-20".into()));
            }
            Date::ZERO
        });
        Price {
            currency: raw.currency.unwrap_or_default(),
            date,
            source: raw.source.unwrap_or_default(),
            tokens: raw.per_million_tokens.unwrap_or_default(),
            minutes: raw.per_minute.unwrap_or_default(),
        }
    }

    /// What the options name as `model`, or the kind's default.
    fn model(&self, provider: &ProviderConfig) -> Option<String> {
        let default = || self.catalog.provider(&provider.kind)?.schema.pointer("/properties/model/default");
        let model = provider.options.get("model").or_else(default)?;
        model.as_str().map(str::to_owned)
    }
}

/// Prices that are old, or of a day that has not come, or that nothing is priced by.
pub(super) fn warnings(prices: &Prices, root: &Node, today: Date, report: &mut Report) {
    for (key, price) in &prices.entries {
        let path = Path::default().key("prices").key(key);
        let mut warn = |path: &Path, message: String, hint: &str| {
            report.add(root.line_of(path), path, message, Some(hint.to_owned()));
        };
        let date = path.key("date");
        let stale = today.checked_sub(STALE_AFTER_DAYS.days()).is_ok_and(|oldest| price.date < oldest);
        if stale {
            let message = format!("these prices are more than a year old ({})", price.date);
            warn(&date, message, "look them up again");
        } else if price.date > today {
            warn(&date, format!("{} has not come yet", price.date), "write the day on which they were looked up");
        }
        if !prices.chosen.values().any(|chosen| chosen == key) {
            warn(&path, "no provider has these prices".into(), "the key is a name of providers, or KIND/MODEL");
        }
    }
}
