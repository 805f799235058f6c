//! What a call used at each provider, and what that costs by the operator's prices.
//!
//! Tokens and their cost count when they are reported, connected time when the sessions are closed. What a
//! provider would have reported after the end of the call is not in it.

use super::agent::Session;
use crate::{
    call::{TurnTimes, Usage},
    config::{Cost, Price, Prices},
    provider::Meter,
    records::{self, TurnUsed, Used},
    telemetry::Metrics,
};
use std::{collections::BTreeMap, sync::Arc};
use tracing::{debug, info};

#[derive(Default)]
pub(super) struct Bill {
    /// By entry of `providers`.
    used: BTreeMap<String, Usage>,
    /// Of the turn that runs.
    turn: (u64, BTreeMap<String, Usage>),
    /// Of every session the call had.
    meters: Vec<(String, Arc<Meter>)>,
}

/// One line with what was used; kinds of which there is none are left out.
macro_rules! tell {
    ($level:ident, $provider:expr, $usage:expr, $price:expr, $turn:expr) => {{
        let (usage, price): (&Usage, Option<&Price>) = ($usage, $price);
        let cost = price.map(|price| price.cost(usage));
        let some = |count: u64| (count > 0).then_some(count);
        let seconds = |time: std::time::Duration| (!time.is_zero()).then(|| round(time.as_secs_f64(), 1e3));
        $level!(
            target: "offhook::usage",
            provider = $provider,
            turn = $turn,
            input_text = some(usage.input_text_tokens),
            input_audio = some(usage.input_audio_tokens),
            input_cached = some(usage.input_cached_tokens),
            input_cached_audio = some(usage.input_cached_audio_tokens),
            output_text = some(usage.output_text_tokens),
            output_audio = some(usage.output_audio_tokens),
            output_thinking = some(usage.output_thinking_tokens),
            transcription_text = some(usage.transcription_text_tokens),
            transcription_audio = some(usage.transcription_audio_tokens),
            transcription_output = some(usage.transcription_output_tokens),
            transcribed_seconds = seconds(usage.transcribed),
            connected_seconds = seconds(usage.connected),
            cost = cost.as_ref().map(|cost| round(cost.amount, 1e6)),
            currency = price.map(|price| price.currency.as_str()),
            price_date = price.map(|price| price.date.to_string()),
            // Its presence says that the cost is too small.
            unpriced = cost.filter(|cost| !cost.unpriced.is_empty()).map(|cost| cost.unpriced.join(",")),
            "usage"
        );
    }};
}

impl Bill {
    /// A session of this provider was begun for the call.
    pub fn session(&mut self, provider: &str, session: &Session) {
        self.meters.push((provider.to_owned(), Arc::clone(&session.meter)));
    }

    /// `turn` is the caller's, as tools count it; what answers an interrupted one may count in the next.
    /// Returns what the turn before has used, where this is the first of another one.
    #[must_use]
    pub fn reported(
        &mut self,
        provider: &str,
        usage: &Usage,
        turn: u64,
        prices: &Prices,
        metrics: &Metrics,
    ) -> Vec<TurnUsed> {
        let ended = if turn == self.turn.0 { Vec::new() } else { self.end_turn(prices) };
        self.turn.0 = turn;
        *self.turn.1.entry(provider.to_owned()).or_default() += *usage;
        self.add(provider, usage, prices, metrics);
        ended
    }

    fn add(&mut self, provider: &str, usage: &Usage, prices: &Prices, metrics: &Metrics) {
        *self.used.entry(provider.to_owned()).or_default() += *usage;
        metrics.used(provider, usage);
        if let Some(price) = prices.of(provider) {
            metrics.cost(provider, &price.currency, price.cost(usage).amount);
        }
    }

    /// What the turn that runs has used so far: it, or the call, is over.
    #[must_use]
    pub fn end_turn(&mut self, prices: &Prices) -> Vec<TurnUsed> {
        let turn = self.turn.0;
        let used = |(provider, usage): (String, Usage)| {
            let price = prices.of(&provider).map(AsRef::as_ref);
            tell!(debug, provider, &usage, price, Some(turn));
            TurnUsed { turn, used: shown(provider, &usage, price) }
        };
        std::mem::take(&mut self.turn.1).into_iter().map(used).collect()
    }

    /// The sessions are closed: one line per provider, and the same for the pages.
    pub fn settle(mut self, prices: &Prices, metrics: &Metrics) -> Vec<Used> {
        for (provider, meter) in std::mem::take(&mut self.meters) {
            let connected = Usage { connected: meter.connected(), ..Usage::default() };
            self.add(&provider, &connected, prices, metrics);
        }
        let view = |(provider, usage): (String, Usage)| {
            let price = prices.of(&provider).map(AsRef::as_ref);
            tell!(info, provider, &usage, price, None::<u64>);
            shown(provider, &usage, price)
        };
        self.used.into_iter().map(view).collect()
    }
}

/// The waterfall of one turn: its stages add up to the whole.
pub(super) fn tell_turn(provider: &str, times: &TurnTimes) {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    info!(
        target: "offhook::turn",
        provider,
        turn = times.turn,
        total_ms = ms(times.total()),
        endpointing_ms = ms(times.endpointing),
        thinking_ms = ms(times.thinking),
        speaking_ms = ms(times.speaking),
        playout_ms = ms(times.playout),
        tools = times.tools,
        filled = times.filled,
        "turn"
    );
}

fn shown(provider: String, usage: &Usage, price: Option<&Price>) -> Used {
    let tokens = Usage::TOKEN_KINDS.into_iter().zip(usage.tokens()).filter(|(_, count)| *count > 0);
    let cost = price.map(|price| {
        let Cost { amount, unpriced } = price.cost(usage);
        let amount = round(amount, 1e6);
        let unpriced = unpriced.into_iter().map(str::to_owned).collect();
        records::Cost { amount, currency: price.currency.clone(), price_date: price.date.to_string(), unpriced }
    });
    Used {
        provider,
        tokens: tokens.map(|(kind, count)| (kind.to_owned(), count)).collect(),
        transcribed_seconds: round(usage.transcribed.as_secs_f64(), 1e3),
        connected_seconds: round(usage.connected.as_secs_f64(), 1e3),
        cost,
    }
}

/// To one part of `parts`.
fn round(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, provider, telemetry::LogCapture};
    use std::time::Duration;

    fn prices() -> Prices {
        let yaml = "providers: { main: { scripted: { script: [silence] } }, spare: { scripted: { script: [silence] } } }\n\
                    contexts: { a: { prompt: Test, provider: main } }\n\
                    prices: { main: { currency: USD, date: 2026-11-20, source: x, per_million_tokens: { output_audio: 64 }, \
                    per_minute: { connected: 0.6 } } }\n";
        config::load_str("test.yaml", yaml, &|_| None, provider::catalog()).unwrap().prices
    }

    fn spoken(output_audio_tokens: u64) -> Usage {
        Usage { output_audio_tokens, ..Usage::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_with_one_line_per_provider_and_its_cost_where_there_is_a_price() {
        let (prices, metrics) = (prices(), Metrics::new("1.2.3"));
        metrics.know([], ["main", "spare"]);
        metrics.know_price("main", "USD");
        let mut bill = Bill::default();
        let meter = Arc::<Meter>::default();
        bill.meters.push(("main".into(), Arc::clone(&meter)));
        let connection = meter.connect();
        let capture = LogCapture::new();
        let _guard = capture.start();
        assert_eq!(bill.reported("main", &spoken(100), 1, &prices, &metrics), []);
        assert_eq!(bill.reported("main", &spoken(200), 1, &prices, &metrics), []);
        let turn_1 = bill.reported("spare", &spoken(50), 2, &prices, &metrics);
        let [TurnUsed { turn: 1, used }] = turn_1.as_slice() else { panic!("{turn_1:?}") };
        assert_eq!((used.provider.as_str(), used.cost.as_ref().map(|cost| cost.amount)), ("main", Some(0.0192)));
        let turn_2 = bill.end_turn(&prices);
        let [TurnUsed { turn: 2, used }] = turn_2.as_slice() else { panic!("{turn_2:?}") };
        assert_eq!((used.provider.as_str(), used.tokens["output_audio"], used.cost.as_ref()), ("spare", 50, None));
        tokio::time::advance(Duration::from_secs(30)).await;
        drop(connection);
        let shown = bill.settle(&prices, &metrics);
        let lines = capture.lines();
        let [turn_1, turn_2, main, spare] = lines.as_slice() else { panic!("{lines:?}") };
        for part in ["DEBUG", r#"provider="main""#, "turn=1", "output_audio=300", "cost=0.0192", r#"currency="USD""#] {
            assert!(turn_1.contains(part), "{part} in {turn_1}");
        }
        for part in ["DEBUG", r#"provider="spare""#, "turn=2", "output_audio=50"] {
            assert!(turn_2.contains(part), "{part} in {turn_2}");
        }
        for part in ["INFO", "output_audio=300", "connected_seconds=30", "cost=0.3192", r#"price_date="2026-11-20""#] {
            assert!(main.contains(part), "{part} in {main}");
        }
        assert!(!main.contains("turn=") && !main.contains("unpriced") && !main.contains("input_text"), "{main}");
        assert!(spare.contains("INFO") && !spare.contains("cost"), "no price, no cost: {spare}");
        assert_eq!(shown[0].tokens, BTreeMap::from([("output_audio".into(), 300)]));
        assert_eq!(shown[0].cost.as_ref().map(|cost| cost.amount), Some(0.3192));
        assert_eq!((shown[1].provider.as_str(), shown[1].cost.as_ref()), ("spare", None));
        let text = metrics.text();
        for line in [
            r#"offhook_tokens_total{kind="output_audio",provider="main"} 300"#,
            r#"offhook_connected_seconds_total{provider="main"} 30"#,
            r#"offhook_cost_total{currency="USD",provider="main"} 0.3192"#,
        ] {
            assert!(text.lines().any(|written| written == line), "{line} in {text}");
        }
    }

    #[test]
    fn a_cost_that_leaves_something_out_says_so() {
        let (prices, metrics) = (prices(), Metrics::new("1.2.3"));
        let mut bill = Bill::default();
        let usage = Usage { input_text_tokens: 9, output_text_tokens: 9, ..Usage::default() };
        let _ = bill.reported("main", &usage, 1, &prices, &metrics);
        let capture = LogCapture::new();
        let _guard = capture.start();
        let shown = bill.settle(&prices, &metrics);
        assert!(capture.lines().iter().all(|line| line.contains(r#"unpriced="input_text,output_text""#)));
        assert_eq!(
            shown[0].cost.as_ref().map(|cost| cost.unpriced.clone()),
            Some(vec!["input_text".into(), "output_text".into()])
        );
    }

    #[test]
    fn the_waterfall_of_a_turn_is_one_line() {
        let capture = LogCapture::new();
        let _guard = capture.start();
        let ms = Duration::from_millis;
        let times = TurnTimes {
            turn: 4,
            endpointing: ms(600),
            thinking: ms(300),
            speaking: ms(80),
            playout: ms(20),
            tools: true,
            filled: false,
        };
        tell_turn("main", &times);
        let lines = capture.lines();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        let parts = ["INFO", "offhook::turn", "turn=4", "total_ms=1000", "endpointing_ms=600", "thinking_ms=300"];
        for part in parts.into_iter().chain(["speaking_ms=80", "playout_ms=20", "tools=true", "filled=false"]) {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
}
