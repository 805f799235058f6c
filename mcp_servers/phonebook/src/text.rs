//! Words that people and models write: limits, and sentences that are spoken.

use crate::store::Contact;

/// In characters. Longer names and companies cannot be spoken, longer notes cannot be used in a call.
pub const NAME_MAX: usize = 100;
pub const COMPANY_MAX: usize = 100;
pub const NOTE_MAX: usize = 1000;
pub const SEARCH_MAX: usize = 100;

/// The text without blanks around it.
///
/// # Errors
/// Names the field when the text is longer than `limit` characters or holds control characters.
pub fn checked(field: &str, text: &str, limit: usize) -> Result<String, String> {
    let text = text.trim();
    if text.chars().count() > limit {
        return Err(format!("{field}: more than {limit} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{field}: it holds a control character"));
    }
    Ok(text.to_owned())
}

/// "Anna Meier of Meier Ltd."
pub fn spoken(contact: &Contact) -> String {
    let Contact { name, company, .. } = contact;
    if company.is_empty() { name.clone() } else { format!("{name} of {company}") }
}

/// One full stop at the end, also after "Ltd.".
pub fn sentence(words: &str) -> String {
    if words.ends_with(['.', '!', '?']) { words.to_owned() } else { format!("{words}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_spoken_with_one_full_stop() {
        let contact = |company: &str| Contact {
            number: "6001".into(),
            name: "Anna Meier".into(),
            company: company.into(),
            note: "secret".into(),
            vip: false,
        };
        for (company, expected) in
            [("Meier Ltd.", "Anna Meier of Meier Ltd."), ("Acme", "Anna Meier of Acme."), ("", "Anna Meier.")]
        {
            assert_eq!(sentence(&spoken(&contact(company))), expected);
        }
    }
}
