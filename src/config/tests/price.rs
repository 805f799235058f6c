//! What providers cost: the table as it is written, and what usage costs by it.

use super::*;
use crate::call::Usage;

const PRICED: &str = "\
providers:
  front: { openai_realtime: { api_key: k, model: gpt-2 } }
  spare: { scripted: }
contexts:
  desk: { prompt: Be kind., provider: front }
prices:
";

fn with(prices: &str) -> String {
    format!("{PRICED}{prices}")
}

fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

fn close(cost: f64, expected: f64) {
    assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
}

#[test]
fn every_part_of_the_usage_is_priced_once() {
    let config = loaded(&with(
        "  front:
    currency: USD
    date: 2026-11-20
    source: https://example.com/pricing
    per_million_tokens:
      { input_text: 4, input_audio: 32, input_cached_text: 0.4, input_cached_audio: 0.8, output_text: 16,
        output_audio: 64, output_thinking: 20, transcription_text: 1, transcription_audio: 6, transcription_output: 10 }
    per_minute: { connected: 0.06, transcribed: 0.03 }
",
    ));
    let price = config.prices.of("front").unwrap();
    let million = 1_000_000;
    let whole = |usage: Usage| {
        let cost = price.cost(&usage);
        assert!(cost.unpriced.is_empty(), "{cost:?}");
        cost.amount
    };
    let cached = Usage {
        input_text_tokens: 3 * million,
        input_audio_tokens: 2 * million,
        input_cached_tokens: 2 * million,
        input_cached_audio_tokens: million,
        ..Usage::default()
    };
    close(whole(cached), 2.0 * 4.0 + 0.4 + 32.0 + 0.8);
    let out = Usage {
        output_text_tokens: million,
        output_audio_tokens: million,
        output_thinking_tokens: million,
        ..Usage::default()
    };
    close(whole(out), 16.0 + 64.0 + 20.0);
    let heard = Usage {
        transcription_text_tokens: million,
        transcription_audio_tokens: million,
        transcription_output_tokens: million,
        transcribed: Duration::from_secs(120),
        connected: Duration::from_secs(90),
        ..Usage::default()
    };
    close(whole(heard), 1.0 + 6.0 + 10.0 + 0.06 + 0.09);
}

#[test]
fn what_has_no_price_is_named_and_cached_tokens_are_never_cheaper_than_told() {
    let config = loaded(&with(
        "  front: { currency: EUR, date: 2026-11-20, source: contract 7, per_million_tokens: { input_text: 4, input_audio: 32 } }\n",
    ));
    let price = config.prices.of("front").unwrap();
    let used = Usage {
        input_text_tokens: 1_000_000,
        input_cached_tokens: 500_000,
        output_audio_tokens: 7,
        transcription_audio_tokens: 7,
        connected: Duration::from_secs(60),
        ..Usage::default()
    };
    let cost = price.cost(&used);
    close(cost.amount, 4.0);
    assert_eq!(cost.unpriced, ["output_audio", "transcription_audio"], "connected time is not billed by everyone");
    // A provider may say how much was cached and not of which kind.
    let audio = Usage { input_audio_tokens: 1_000_000, input_cached_tokens: 1_000_000, ..Usage::default() };
    close(price.cost(&audio).amount, 32.0);
}

#[test]
fn a_providers_own_prices_go_before_those_of_its_model() {
    let price = |currency: &str| {
        format!("{{ currency: {currency}, date: {}, source: x, per_minute: {{ connected: 1 }} }}", today())
    };
    let by_model = with(&format!("  openai_realtime/gpt-2: {}\n", price("USD")));
    let config = loaded(&by_model);
    assert_eq!(config.prices.of("front").unwrap().currency, "USD");
    assert_eq!(config.prices.of("spare"), None);
    assert_eq!(config.prices.currencies().collect::<Vec<_>>(), [("front", "USD")]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let both = format!("{by_model}  front: {}\n", price("EUR"));
    assert_eq!(loaded(&both).prices.of("front").unwrap().currency, "EUR");
}

#[test]
fn mistakes_in_prices_are_told_with_their_place() {
    let cases = [
        "  front: { date: 2026-11-20, source: x, per_minute: { connected: 1 } }\n",
        "  front: { currency: dollar, date: 20.11.2026, source: '', per_minute: { connected: 1 } }\n",
        "  front: { currency: USD, date: 2026-02-30, source: x, per_minute: { connected: -1 } }\n",
        "  front: { currency: USD, date: 2026-11-20, source: x }\n",
        "  frnt: { currency: USD, date: 2026-11-20, source: x, per_minute: { connected: 1 } }\n",
        "  openai_raeltime/gpt-2: { currency: USD, date: 2026-11-20, source: x, per_minute: { connected: 1 } }\n",
        "  front: { currency: USD, date: 2026-11-20, source: x, per_million_tokens: { input_txt: 1, output_audio: much } }\n",
    ];
    insta::assert_snapshot!(mistakes::told(&cases, |case| problems(&with(case))));
}

#[test]
fn prices_that_are_old_or_nobodys_are_warned_of() {
    let warnings =
        |prices: &str| loaded(&with(prices)).warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let price = |date: &str| format!("{{ currency: USD, date: {date}, source: x, per_minute: {{ connected: 1 }} }}\n");
    assert_eq!(
        warnings(&format!("  front: {}", price("2020-01-02"))),
        "test.yaml:7: prices.front.date: these prices are more than a year old (2020-01-02); look them up again"
    );
    assert_eq!(
        warnings(&format!("  front: {}", price("9000-01-02"))),
        "test.yaml:7: prices.front.date: 9000-01-02 has not come yet; write the day on which they were looked up"
    );
    assert_eq!(warnings(&format!("  front: {}", price(&today()))), "");
    assert_eq!(
        warnings(&format!("  openai_realtime/gpt-9: {}", price(&today()))),
        "test.yaml:7: prices.\"openai_realtime/gpt-9\": no provider has these prices; the key is a name of providers, or KIND/MODEL"
    );
}
