//! Dates and times of day.

use super::{Around, language::VoiceLanguage, pattern, replace};
use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

/// Prepositions and articles after which a German ordinal ends with -n.
const DATIVE: &[&str] =
    &["am", "vom", "zum", "beim", "bis", "ab", "seit", "den", "dem", "im", "dieser", "diesen", "diesem", "nächsten"];

pub(super) fn spoken(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    let text = iso(text, language);
    let text = by_numbers(text, language);
    let text = by_name(text, language);
    times(text, language)
}

/// `2026-12-03`, `2026-12-03T10:00:00+01:00`: as tools tell them.
fn iso(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static ISO: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(?::[0-9]{2}(?:\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?",
        )
    });
    replace(text, &ISO, |found, around| {
        let date = date(&found[3], &found[2], Some(&found[1]), language, around)?;
        let zone = if found.get(5).is_some_and(|zone| zone.as_str() == "Z") { " UTC" } else { "" };
        (!around.goes_on()).then(|| match found.get(4) {
            Some(time) => format!("{date}, {}{zone}", time.as_str()),
            None => date,
        })
    })
}

/// `24.12.2026`, `24/12/2026`, and in American English `12/24/2026`.
fn by_numbers(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static DATE: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]{1,2})([./-])([0-9]{1,2})([./-])([0-9]{4})"));
    static DAY: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]{1,2})\.([0-9]{1,2})\."));
    let text = replace(text, &DATE, |found, around| {
        if found[2] != found[4] || around.goes_on() {
            return None;
        }
        let (first, second) = (&found[1], &found[3]);
        let twelve = |number: &str| number.parse::<u8>().is_ok_and(|number| number <= 12);
        let (day, month) = match language {
            VoiceLanguage::AmericanEnglish => (second, first),
            // Where both could be the month nobody knows who wrote it.
            VoiceLanguage::English if twelve(first) && twelve(second) => return None,
            VoiceLanguage::English if twelve(first) => (second, first),
            _ => (first, second),
        };
        date(day, month, Some(&found[5]), language, around)
    });
    if language != VoiceLanguage::German {
        return text;
    }
    replace(text, &DAY, |found, around| {
        // "Version 3.1." is no date.
        let before = around.before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
        let dated = before == "der" || DATIVE.contains(&&*before);
        (dated && !around.goes_on()).then(|| date(&found[1], &found[2], None, language, around))?
    })
}

/// "December 3", "3. Dezember", "1 décembre": the day is an ordinal number, which these do not show.
fn by_name(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static ENGLISH: LazyLock<Regex> = LazyLock::new(|| {
        let months = VoiceLanguage::English.months().join("|");
        pattern(&format!(r"\b({months}) ([0-9]{{1,2}})\b"))
    });
    static GERMAN: LazyLock<Regex> = LazyLock::new(|| {
        let months = VoiceLanguage::German.months().join("|");
        pattern(&format!(r"\b([0-9]{{1,2}})\. ({months})\b"))
    });
    match language {
        VoiceLanguage::AmericanEnglish | VoiceLanguage::English => replace(text, &ENGLISH, |found, around| {
            // "In May 20 people came", "March 15-17".
            let counts =
                around.before.split_whitespace().next_back().is_some_and(|word| word.eq_ignore_ascii_case("in"));
            let goes_on = counts || around.after.starts_with([':', '%', '-', '–']);
            let day = found[2].parse().ok().filter(|day| (1..=31).contains(day) && !goes_on)?;
            Some(format!("{} {}", &found[1], english(day)))
        }),
        VoiceLanguage::German => replace(text, &GERMAN, |found, around| {
            let day = found[1].parse().ok().filter(|day| (1..=31).contains(day))?;
            Some(format!("{} {}", german(day, around.before), &found[2]))
        }),
        _ => text,
    }
}

/// `None`: no day of any year.
fn date(day: &str, month: &str, year: Option<&str>, language: VoiceLanguage, around: &Around<'_>) -> Option<String> {
    let day: usize = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = *language.months().get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    let (space, year) = (if year.is_some() { " " } else { "" }, year.unwrap_or_default());
    Some(match language {
        VoiceLanguage::AmericanEnglish | VoiceLanguage::English => format!("{month} {}, {year}", english(day)),
        VoiceLanguage::German => format!("{} {month}{space}{year}", german(day, around.before)),
        VoiceLanguage::French if day == 1 => format!("1er {month}{space}{year}"),
        VoiceLanguage::Italian if day == 1 => format!("primo {month}{space}{year}"),
        VoiceLanguage::Portuguese if day == 1 => format!("primeiro de {month} de {year}"),
        VoiceLanguage::Spanish | VoiceLanguage::Portuguese => format!("{day} de {month} de {year}"),
        VoiceLanguage::French | VoiceLanguage::Italian | VoiceLanguage::Dutch => format!("{day} {month}{space}{year}"),
    })
}

fn english(day: usize) -> String {
    let end = match day {
        11..=13 => "th",
        _ => match day % 10 {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        },
    };
    format!("{day}{end}")
}

/// In words: voices read "3." as the end of a sentence.
fn german(day: usize, before: &str) -> String {
    const UNITS: [&str; 20] = [
        "",
        "erste",
        "zweite",
        "dritte",
        "vierte",
        "fünfte",
        "sechste",
        "siebte",
        "achte",
        "neunte",
        "zehnte",
        "elfte",
        "zwölfte",
        "dreizehnte",
        "vierzehnte",
        "fünfzehnte",
        "sechzehnte",
        "siebzehnte",
        "achtzehnte",
        "neunzehnte",
    ];
    const AND: [&str; 10] =
        ["", "einund", "zweiund", "dreiund", "vierund", "fünfund", "sechsund", "siebenund", "achtund", "neunund"];
    let word = match day {
        0..20 => UNITS[day].to_owned(),
        20..30 => format!("{}zwanzigste", AND[day - 20]),
        _ => format!("{}dreißigste", AND[(day - 30).min(9)]),
    };
    let previous = before.split_whitespace().next_back().unwrap_or_default().to_lowercase();
    match previous.as_str() {
        "der" | "das" | "die" => word,
        previous if DATIVE.contains(&previous) => word + "n",
        // "Dienstag, 3. Dezember" has no article to go by, "am Dienstag, dem" has.
        previous if previous.ends_with(',') && before.contains("am ") => word + "n",
        _ => word + "r",
    }
}

fn times(text: Cow<'_, str>, language: VoiceLanguage) -> Cow<'_, str> {
    static COLON: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"([01]?[0-9]|2[0-4]):([0-5][0-9])(?: ?(Uhr|uur|heures|horas|(?i:[ap]\.?m\b\.?)))?"));
    static GERMAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"([01]?[0-9]|2[0-4])\.([0-5][0-9]) (Uhr)"));
    static FRENCH: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"([01]?[0-9]|2[0-4])[ \x{a0}\x{202f}]?h(?:[ \x{a0}\x{202f}]?([0-5][0-9]))?\b"));
    let time = |text, pattern: &Regex| {
        replace(text, pattern, |found, around| {
            let minutes = found.get(2).map_or("00", |minutes| minutes.as_str());
            let unit = found.get(3).map(|unit| unit.as_str());
            (!around.goes_on()).then(|| time(found[1].parse().ok(), minutes, unit, language))?
        })
    };
    let text = time(text, &COLON);
    match language {
        VoiceLanguage::German => time(text, &GERMAN),
        VoiceLanguage::French => time(text, &FRENCH),
        _ => text,
    }
}

fn time(hour: Option<u8>, minutes: &str, unit: Option<&str>, language: VoiceLanguage) -> Option<String> {
    let hour = hour?;
    let minute: u8 = minutes.parse().ok()?;
    let whole = minute == 0;
    let halves = unit.is_some_and(|unit| unit.starts_with(['a', 'p', 'A', 'P']));
    Some(match language {
        VoiceLanguage::AmericanEnglish | VoiceLanguage::English => {
            let (hour, half) = match (hour, unit) {
                (_, Some(unit)) => (hour, Some(unit.to_owned())),
                (0 | 24, None) => (12, Some("am".into())),
                (13.., None) => (hour - 12, Some("pm".into())),
                (_, None) => (hour, None),
            };
            let minutes = match minute {
                0 if half.is_none() => " o'clock".into(),
                0 => String::new(),
                1..10 => format!(" oh {minute}"),
                _ => format!(" {minute}"),
            };
            format!("{hour}{minutes}{}", half.map(|half| format!(" {half}")).unwrap_or_default())
        }
        // "8:00 p.m." in another language: the voice makes the best of it.
        _ if halves => return None,
        VoiceLanguage::German if whole => format!("{hour} Uhr"),
        VoiceLanguage::German => format!("{hour} Uhr {minute}"),
        VoiceLanguage::French => {
            let hours = if hour < 2 { "heure" } else { "heures" };
            if whole { format!("{hour} {hours}") } else { format!("{hour} {hours} {minute}") }
        }
        VoiceLanguage::Dutch if whole => format!("{hour} uur"),
        VoiceLanguage::Dutch => format!("{hour} uur {minute}"),
        VoiceLanguage::Spanish if whole && unit.is_some() => format!("{hour} horas"),
        VoiceLanguage::Spanish | VoiceLanguage::Italian if whole => format!("{hour}"),
        VoiceLanguage::Spanish => format!("{hour} y {minute}"),
        VoiceLanguage::Portuguese if whole => format!("{hour} horas"),
        VoiceLanguage::Italian | VoiceLanguage::Portuguese => format!("{hour} e {minute}"),
    })
}
