//! Checks that the options of several providers share.

use crate::config::OptionProblem;
use secrecy::{ExposeSecret, SecretString};
use tokio_tungstenite::tungstenite::http::Uri;

/// A key or token that travels in a header; `variable` is where it usually comes from.
pub(super) fn secret(path: &str, secret: &SecretString, variable: &str) -> Option<OptionProblem> {
    let secret = secret.expose_secret();
    if secret.trim().is_empty() {
        return Some(OptionProblem::new(path, "is empty").hint(format!("set {variable}")));
    }
    (!header_value(secret)).then(|| OptionProblem::new(path, "holds a space or a control character"))
}

pub(super) fn header_value(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

pub(super) fn web_socket(path: &str, address: &str, example: &str) -> Option<OptionProblem> {
    let host = ["wss://", "ws://"].into_iter().find_map(|scheme| address.strip_prefix(scheme));
    let good = host.is_some_and(|host| !host.is_empty()) && address.parse::<Uri>().is_ok();
    (!good).then(|| OptionProblem::new(path, "is no WebSocket address").hint(format!("write it like {example}")))
}

/// A name as vendors give them to models, voices and agents: it is safe in an address as it is.
pub(super) fn plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
}

/// A name that stands in an address or in a message as it is.
pub(super) fn name(path: &str, name: &str, what: &str, example: &str) -> Option<OptionProblem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let good = !name.is_empty() && name.chars().all(plain);
    (!good).then(|| OptionProblem::new(path, format!("\"{name}\" is no {what}")).hint(format!("such as {example}")))
}

pub(super) fn within(path: &str, value: Option<f64>, min: f64, max: f64) -> Option<OptionProblem> {
    let value = value.filter(|value| !(min..=max).contains(value))?;
    Some(OptionProblem::new(path, format!("{value} is not within {min} and {max}")))
}
