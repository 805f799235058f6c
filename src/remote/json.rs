//! JSON messages, as several services write and read them.

use super::Wire;
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose},
};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// What a message did not have, so that it cannot be read.
#[derive(Debug)]
pub struct Malformed;

impl From<serde_json::Error> for Malformed {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// What a message is called, before it is read as a whole.
#[derive(Deserialize)]
pub struct Kind<'a> {
    #[serde(borrow)]
    pub r#type: Cow<'a, str>,
}

pub fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Malformed> {
    Ok(serde_json::from_slice(json)?)
}

pub fn text(message: &Value) -> Wire {
    Wire::Text(message.to_string())
}

/// A message whose text is `before`, then the bytes in base64, then `after`: fifty a second leave, so none is built as a tree.
pub fn audio(before: &str, bytes: &[u8], after: &str) -> Wire {
    let mut message = String::with_capacity(before.len() + bytes.len().div_ceil(3) * 4 + after.len());
    message.push_str(before);
    general_purpose::STANDARD.encode_string(bytes, &mut message);
    message.push_str(after);
    Wire::Text(message)
}

/// Base64 in either alphabet, padded or not: services write both.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const USUAL: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
    const OTHER: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
    // Audio comes fifty times a second, and nearly always in the first.
    USUAL.decode(text).or_else(|_| OTHER.decode(text)).ok()
}

/// Adds the optional fields that have a value.
pub fn with_known<const N: usize>(mut object: Value, fields: [(&str, Option<Value>); N]) -> Value {
    for (name, value) in fields {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_written_as_json_that_holds_it_in_base64() {
        let wire = audio(r#"{"audio":""#, &[0xff, 0x7f, 0x00, 0x01], r#""}"#);
        assert_eq!(serde_json::from_slice::<Value>(wire.bytes()).unwrap(), serde_json::json!({ "audio": "/38AAQ==" }));
    }

    #[test]
    fn base64_is_read_in_either_alphabet_padded_or_not() {
        for text in ["/38AAQ==", "/38AAQ", "_38AAQ==", "_38AAQ"] {
            assert_eq!(decode_base64(text).as_deref(), Some(&[0xff, 0x7f, 0x00, 0x01][..]), "{text}");
        }
        assert_eq!(decode_base64("no base64"), None);
    }
}
