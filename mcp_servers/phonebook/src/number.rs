//! Telephone numbers in one form, however a network or a person writes them.

use std::fmt;

/// The longest text that is read as a number: a SIP address with a display name still fits.
pub const TEXT_MAX: usize = 128;
/// E.164: at most 15 digits with the country code.
const DIGITS_MAX: usize = 15;
/// Shorter than any number with a country code.
const DIGITS_MIN: usize = 5;
/// Bare numbers up to this length are extensions of the house: no country has subscribers' numbers
/// that short without a trunk prefix.
const EXTENSION_MAX: usize = 6;

/// What telephone systems send in place of a number that the caller withholds.
const WITHHELD: &[&str] = &[
    "",
    "anonymous",
    "asterisk",
    "blocked",
    "none",
    "not available",
    "null",
    "private",
    "restricted",
    "unavailable",
    "unknown",
    "withheld",
];

/// How numbers are dialled where the telephones are.
#[derive(Clone, Debug)]
pub struct DiallingPlan {
    /// Digits of the country code, such as `49`; `None` leaves national numbers unreadable.
    pub country: Option<String>,
    /// What is dialled before a country code: `00`, in North America `011`.
    pub international: String,
    /// What is dialled before an area code: `0`, in North America `1`, in Italy and Spain nothing.
    pub trunk: String,
}

/// A number in its one form: `+` and the digits of E.164, or the bare digits of an extension.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Number(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotANumber {
    #[error("the number is withheld")]
    Withheld,
    #[error("this is no telephone number")]
    Unreadable,
    #[error("this is a national number and the country is not known: write it with + or give --country-prefix")]
    National,
    #[error("a telephone number has {DIGITS_MIN} to {DIGITS_MAX} digits with its country code")]
    Length,
}

impl Number {
    /// Reads `text`, which may be a `tel:` or `sip:` address, hold blanks, hyphens, dots, slashes and
    /// parentheses, and a `(0)` after the country code.
    ///
    /// # Errors
    /// See [`NotANumber`].
    pub fn parse(text: &str, plan: &DiallingPlan) -> Result<Self, NotANumber> {
        let text = address(text);
        if WITHHELD.contains(&text.to_lowercase().as_str()) {
            return Err(NotANumber::Withheld);
        }
        let international = text.starts_with('+') || text.starts_with(plan.international.as_str());
        // The trunk prefix that people add for callers at home; it is not part of the number.
        let text = if international { text.replacen("(0)", "", 1) } else { text.to_owned() };
        let (plus, rest) = text.strip_prefix('+').map_or((false, text.as_str()), |rest| (true, rest));
        let digits: String = rest.chars().filter(|letter| !is_separator(*letter)).collect();
        if digits.is_empty() || !digits.chars().all(|letter| letter.is_ascii_digit()) {
            return Err(NotANumber::Unreadable);
        }
        if plus { e164(&digits) } else { bare(&digits, plan) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A caller's number must not end up in a log by accident.
impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Number(***)")
    }
}

/// The user part of `"Name" <sip:user@host;parameters>`, `tel:number;parameters` or `<unknown>`.
fn address(text: &str) -> &str {
    let text = text.trim_matches(is_blank);
    let text = match (text.rfind('<'), text.ends_with('>')) {
        (Some(start), true) => &text[start + 1..text.len() - 1],
        _ => text,
    };
    let scheme = ["sip:", "sips:", "tel:"].into_iter().find(|scheme| {
        let start = text.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let text = &text[scheme.map_or(0, str::len)..];
    text.split(['@', ';']).next().unwrap_or_default().trim_matches(is_blank)
}

/// What stands between digits on paper.
fn is_separator(letter: char) -> bool {
    is_blank(letter) || matches!(letter, '-' | '.' | '/' | '(' | ')' | '\u{2010}'..='\u{2014}')
}

/// White space, and the invisible marks that come with numbers pasted from elsewhere.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn e164(digits: &str) -> Result<Number, NotANumber> {
    match digits.len() {
        DIGITS_MIN..=DIGITS_MAX => Ok(Number(format!("+{digits}"))),
        _ => Err(NotANumber::Length),
    }
}

/// A number without `+`: what it means depends on how it begins and on its length.
fn bare(digits: &str, plan: &DiallingPlan) -> Result<Number, NotANumber> {
    if let Some(rest) = digits.strip_prefix(plan.international.as_str()) {
        return e164(rest);
    }
    // An extension may begin with any digit but 0, so also with the trunk prefix of North America.
    if digits.len() <= EXTENSION_MAX && !digits.starts_with('0') {
        return Ok(Number(digits.to_owned()));
    }
    let country = plan.country.as_deref().ok_or(NotANumber::National)?;
    if !plan.trunk.is_empty()
        && let Some(rest) = digits.strip_prefix(plan.trunk.as_str())
    {
        return e164(&format!("{country}{rest}"));
    }
    // SIP trunks send E.164 without its plus. Where national numbers have no prefix, only the length
    // tells the two apart.
    let least = if plan.trunk.is_empty() { 11 } else { 9 };
    if digits.starts_with(country) && digits.len() >= least {
        return e164(digits);
    }
    e164(&format!("{country}{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(country: &str, international: &str, trunk: &str) -> DiallingPlan {
        let country = (!country.is_empty()).then(|| country.to_owned());
        DiallingPlan { country, international: international.into(), trunk: trunk.into() }
    }

    fn germany() -> DiallingPlan {
        plan("49", "00", "0")
    }

    #[test]
    fn every_form_of_a_number_leads_to_one() {
        let america = plan("1", "011", "1");
        let (italy, spain, russia) = (plan("39", "00", ""), plan("34", "00", ""), plan("7", "810", "8"));
        for (text, plan, expected) in [
            ("+49 30 123", &germany(), "+4930123"),
            ("0049 30 123", &germany(), "+4930123"),
            ("030 123", &germany(), "+4930123"),
            ("030123", &germany(), "+4930123"),
            ("+49 (0)30 123", &germany(), "+4930123"),
            ("+49(0) 30/123", &germany(), "+4930123"),
            ("0049 (0) 30 123", &germany(), "+4930123"),
            ("(030) 12-3", &germany(), "+4930123"),
            ("(0)30 123", &germany(), "+4930123"),
            ("  +49-30-123\t", &germany(), "+4930123"),
            ("\u{202a}+49\u{a0}30\u{2011}123\u{202c}", &germany(), "+4930123"),
            ("030.123", &germany(), "+4930123"),
            ("4930123456", &germany(), "+4930123456"),
            ("sip:+4930123456@example.com;user=phone", &germany(), "+4930123456"),
            ("\"Anna\" <sips:030123456@example.com>", &germany(), "+4930123456"),
            ("TEL:+49-30-123;phone-context=example.com", &germany(), "+4930123"),
            ("<030123>", &germany(), "+4930123"),
            ("6001", &germany(), "6001"),
            ("sip:112@example.com", &germany(), "112"),
            ("+1 (212) 555-0100", &america, "+12125550100"),
            ("1-212-555-0100", &america, "+12125550100"),
            ("(212) 555-0100", &america, "+12125550100"),
            ("2125550100", &america, "+12125550100"),
            ("011 49 30 123", &america, "+4930123"),
            ("101", &america, "101"),
            ("06 1234 5678", &italy, "+390612345678"),
            ("+39 06 1234 5678", &italy, "+390612345678"),
            ("391 234 5678", &italy, "+393912345678"),
            ("39 391 234 5678", &italy, "+393912345678"),
            ("912 345 678", &spain, "+34912345678"),
            ("34912345678", &spain, "+34912345678"),
            ("8 495 123-45-67", &russia, "+74951234567"),
            ("810 49 30 123", &russia, "+4930123"),
            ("+49 30 123", &plan("", "00", "0"), "+4930123"),
            ("0049 30 123", &plan("", "00", "0"), "+4930123"),
        ] {
            let number = Number::parse(text, plan);
            assert_eq!(number.as_ref().map(Number::as_str), Ok(expected), "{text:?} in {plan:?}");
        }
    }

    #[test]
    fn what_is_no_number_says_why() {
        use NotANumber::*;
        for (text, expected) in [
            ("", Withheld),
            ("  ", Withheld),
            ("anonymous", Withheld),
            ("Anonymous", Withheld),
            ("<unknown>", Withheld),
            ("\"Anonymous\" <sip:anonymous@anonymous.invalid>", Withheld),
            ("RESTRICTED", Withheld),
            ("not available", Withheld),
            ("{caller_number}", Unreadable),
            ("Anna Meier", Unreadable),
            ("+", Unreadable),
            ("++4930123", Unreadable),
            ("49+30123", Unreadable),
            ("*21#", Unreadable),
            ("+49 30 123 ext. 5", Unreadable),
            ("' OR 1=1 --", Unreadable),
            ("٠٣٠١٢٣", Unreadable),
            ("+1", Length),
            ("00", Length),
            ("0", Length),
            ("+1234567890123456", Length),
            ("0301234567890123456", Length),
        ] {
            assert_eq!(Number::parse(text, &germany()), Err(expected), "{text:?}");
        }
        assert_eq!(Number::parse("030 123", &plan("", "00", "0")), Err(National));
        assert_eq!(Number::parse("4930123456", &plan("", "00", "0")), Err(National));
    }

    #[test]
    fn a_number_reads_itself() {
        for text in ["+49 30 123", "6001", "0012125550100"] {
            let number = Number::parse(text, &germany()).unwrap();
            assert_eq!(Number::parse(number.as_str(), &germany()), Ok(number.clone()));
        }
    }

    #[test]
    fn a_number_does_not_print_itself() {
        let number = Number::parse("+49 30 123", &germany()).unwrap();
        assert!(!format!("{number:?}").contains("123"));
    }
}
