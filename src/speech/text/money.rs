//! Amounts of money.

use super::{
    language::{Currency, Language},
    pattern, replace,
};
use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

/// A number with its thousands and hundredths, in the writing of any of these languages.
const NUMBER: &str = r"(?:[0-9]{1,3}(?:[.,'\x{a0}\x{202f}][0-9]{3})+|[0-9]{1,12})(?:[.,][0-9]{1,2})?";
const SIGN: &str = r"\$|€|£|US\$|USD|EUR|GBP|CHF";

pub(super) fn spoken(text: Cow<'_, str>, language: Language) -> Cow<'_, str> {
    static BEFORE: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"(?P<sign>{SIGN})[ \x{{a0}}]?(?P<number>{NUMBER})")));
    static BEHIND: LazyLock<Regex> =
        LazyLock::new(|| pattern(&format!(r"(?P<number>{NUMBER})[ \x{{a0}}]?(?P<sign>{SIGN})")));
    static MORE: LazyLock<Regex> = LazyLock::new(|| {
        // "$3 million": the number goes on, and the voice makes the best of it.
        let words = "hundred|thousand|million|billion|trillion|tausend|mio|mrd|milli|mille|milion|millones|mil|miljoen|miljard|duizend";
        pattern(&format!(r"(?i)^[ \x{{a0}}-]?(?:(?:{words})|(?:k|m|bn|tsd)\b)"))
    });
    let amount = |text, pattern: &Regex| {
        replace(text, pattern, |found, around| {
            let words = (!around.goes_on() && !MORE.is_match(around.after))
                .then(|| amount(&found["number"], &found["sign"], language))?;
            Some(words)
        })
    };
    amount(amount(text, &BEFORE), &BEHIND)
}

fn amount(number: &str, sign: &str, language: Language) -> String {
    let currency = match sign {
        "€" | "EUR" => Currency::Euro,
        "£" | "GBP" => Currency::Pound,
        "CHF" => Currency::Franc,
        _ => Currency::Dollar,
    };
    let names = language.currency(currency);
    // Two figures behind the last sign are hundredths, three are thousands.
    let (whole, hundredths) = match number.rfind(['.', ',']).map(|at| (&number[..at], &number[at + 1..])) {
        Some((whole, tenths)) if tenths.len() == 1 => (whole, format!("{tenths}0")),
        Some((whole, hundredths)) if hundredths.len() == 2 => (whole, hundredths.to_owned()),
        _ => (number, "00".into()),
    };
    let digits: String = whole.chars().filter(char::is_ascii_digit).collect();
    let whole = digits.trim_start_matches('0');
    let hundredths = hundredths.trim_start_matches('0');
    let cents = || if hundredths == "1" { names.cent.to_owned() } else { format!("{hundredths} {}", names.cents) };
    let amount = match whole {
        "" if hundredths.is_empty() => format!("0 {}", names.many),
        "" => return cents(),
        "1" => names.one.to_owned(),
        whole => format!("{whole} {}", names.many),
    };
    match language {
        _ if hundredths.is_empty() => amount,
        Language::AmericanEnglish | Language::English => format!("{amount} and {}", cents()),
        Language::German | Language::French | Language::Dutch => format!("{amount} {hundredths}"),
        Language::Spanish => format!("{amount} con {hundredths}"),
        Language::Italian | Language::Portuguese => format!("{amount} e {hundredths}"),
    }
}
