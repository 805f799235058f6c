//! Amounts of money.

use super::{
    Around,
    language::{Currency, VoiceLanguage},
    pattern, replace,
};
use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

/// A number with its thousands and hundredths, in the writing of any of these languages.
const NUMBER: &str = r"(?:[0-9]{1,3}(?:[.,' \x{a0}\x{202f}][0-9]{3})+|[0-9]{1,12})(?:[.,][0-9]{1,2})?";
const SIGN: &str = r"\$|€|£|US\$|USD|EUR|GBP|CHF";
/// Amounts of more figures keep the signs between their thousands: without them they would be read figure by figure.
const PLAIN_FIGURES_MAX: usize = 6;

pub(super) fn spoken(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static BEFORE: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"(?P<sign>{SIGN})[ \x{{a0}}]?(?P<number>{NUMBER})")));
    static BEHIND: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"(?P<number>{NUMBER})[ \x{{a0}}]?(?P<sign>{SIGN})")));
    static MORE: LazyLock<Regex> = LazyLock::new(|| {
        // "$3 million" and "$10-$20": the amount goes on, and the voice makes the best of it.
        let words = "hundred|thousand|million|billion|trillion|tausend|mio|mrd|milli|mille|milion|millones|mil|miljoen|miljard|duizend";
        pattern(&format!(r"(?i)^(?:[ \x{{a0}}-]?(?:(?:{words})|(?:k|m|bn|tsd)\b)|[-–][$€£0-9])"))
    });
    let amount = |text, pattern: &Regex| {
        replace(text, pattern, |found, around| {
            let goes_on = around.goes_on() || MORE.is_match(around.after);
            let number = if goes_on { None } else { Number::read(&found["number"], language) };
            Some(amount(&number?, &found["sign"], language, around))
        })
    };
    amount(amount(text, &BEFORE), &BEHIND)
}

/// What is written before and behind the decimal sign.
struct Number {
    whole: String,
    hundredths: String,
}

impl Number {
    /// `None` where nobody can tell thousands from thousandths, as in "0,319".
    fn read(written: &str, language: VoiceLanguage) -> Option<Self> {
        let english = language.is_english();
        let tail = |at: usize| &written[at + 1..];
        let decimal = written.rfind(['.', ',']).filter(|&at| tail(at).len() < 3);
        let (whole, hundredths) = match decimal {
            Some(at) => (&written[..at], format!("{:0<2}", tail(at))),
            None => (written, String::new()),
        };
        let is_thousands = |c: char| match c {
            ',' => english,
            '.' => !english,
            ' ' => !english,
            _ => true,
        };
        if whole.chars().any(|c| !c.is_ascii_digit() && !is_thousands(c)) || (whole.len() > 1 && whole.starts_with('0'))
        {
            return None;
        }
        let figures: String = whole.chars().filter(char::is_ascii_digit).collect();
        let whole = if figures.len() > PLAIN_FIGURES_MAX { whole.to_owned() } else { figures };
        Some(Self { whole, hundredths: hundredths.trim_start_matches('0').to_owned() })
    }
}

fn amount(number: &Number, sign: &str, language: VoiceLanguage, around: &Around<'_>) -> String {
    let currency = match sign {
        "€" | "EUR" => Currency::Euro,
        "£" | "GBP" => Currency::Pound,
        "CHF" => Currency::Franc,
        _ => Currency::Dollar,
    };
    let (names, hundredths) = (language.currency(currency), &*number.hundredths);
    let cents = || if hundredths == "1" { names.cent.to_owned() } else { format!("{hundredths} {}", names.cents) };
    // "a $50 fee" is a fifty dollar fee.
    let before = around.before.split_whitespace().next_back().unwrap_or_default();
    let many = if language.is_english() && before.eq_ignore_ascii_case("a") {
        names.one.trim_start_matches("1 ")
    } else {
        names.many
    };
    let amount = match &*number.whole {
        "0" if hundredths.is_empty() => format!("0 {}", names.many),
        "0" => return cents(),
        "1" => names.one.to_owned(),
        whole => format!("{whole} {many}"),
    };
    match language {
        _ if hundredths.is_empty() => amount,
        VoiceLanguage::AmericanEnglish | VoiceLanguage::English => format!("{amount} and {}", cents()),
        VoiceLanguage::German | VoiceLanguage::French | VoiceLanguage::Dutch => format!("{amount} {hundredths}"),
        VoiceLanguage::Spanish => format!("{amount} con {hundredths}"),
        VoiceLanguage::Italian | VoiceLanguage::Portuguese => format!("{amount} e {hundredths}"),
    }
}
