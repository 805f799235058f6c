//! Whole numbers that a reader of JSON would round: of more than 64 bits, an identifier most often. Nobody may act on another
//! one than was meant, so the model is told to write it as text.

pub(super) const TOO_LONG: &str = "A whole number in the arguments has more digits than can be kept; write it as text.";

/// Whether there is one in a text that is JSON.
pub(super) fn is_rounded(json: &str) -> bool {
    let (mut is_text, mut rest) = (false, json);
    while let Some(at) = rest.find(['"', '\\', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        let (_, found) = rest.split_at(at);
        // What is escaped ends no text; it is one character, or `u` and digits that are no number there.
        let taken = match found.as_bytes()[0] {
            b'\\' => 1 + found[1..].chars().next().map_or(0, char::len_utf8),
            b'"' => {
                is_text = !is_text;
                1
            }
            _ if is_text => 1,
            _ => {
                let end = found.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                let number = &found[..end.unwrap_or(found.len())];
                let is_whole = !number.contains(['.', 'e', 'E']);
                if is_whole && number.parse::<u64>().is_err() && number.parse::<i64>().is_err() {
                    return true;
                }
                number.len()
            }
        };
        rest = &found[taken..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn whole_numbers_are_kept_up_to_64_bits() {
        for kept in [
            r#"{"n":18446744073709551615,"m":-9223372036854775808,"x":[0,-0,1.5,1e300]}"#,
            r#"{"n":"18446744073709551616","m":"a \\\" 18446744073709551616","\\":"\u0041 18446744073709551616"}"#,
            "{}",
        ] {
            assert!(serde_json::from_str::<Value>(kept).is_ok() && !is_rounded(kept), "{kept}");
        }
        for rounded in [
            r#"{"n":18446744073709551616}"#,
            r#"{"n":-9223372036854775809}"#,
            r#"{"a":"\\","n":[[1, 123456789012345678901234567890 ]]}"#,
            r#"{"18446744073709551616":{"n":100000000000000000000}}"#,
        ] {
            assert!(serde_json::from_str::<Value>(rounded).is_ok() && is_rounded(rounded), "{rounded}");
        }
    }

    proptest! {
        /// What JSON of whole numbers and texts comes back with other digits is found, and nothing else is.
        #[test]
        fn what_is_found_is_what_would_be_altered(number in "-?[1-9][0-9]{0,24}", text in any::<String>()) {
            let key = Value::from(text).to_string();
            let json = format!("{{{key}:[{key},{number}]}}");
            let back = serde_json::from_str::<Value>(&json).unwrap().to_string();
            prop_assert_eq!(is_rounded(&json), !back.ends_with(&format!(",{number}]}}")));
        }
    }
}
