//! Checks of options that several providers have.

use crate::config::OptionProblem;

/// Something that headers can carry.
pub(super) fn header_value(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

/// A name as vendors give them to models, voices and agents: it is safe in an address as it is.
pub(super) fn plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
}

pub(super) fn api_key(key: &str, variable: &str) -> Option<OptionProblem> {
    if key.trim().is_empty() {
        Some(OptionProblem::new("api_key", "is empty").hint(format!("set {variable}")))
    } else if !header_value(key) {
        Some(OptionProblem::new("api_key", "holds a space or a control character"))
    } else {
        None
    }
}

pub(super) fn web_socket_address(base_url: &str, example: &str) -> Option<OptionProblem> {
    let host = ["wss://", "ws://"].into_iter().find_map(|scheme| base_url.strip_prefix(scheme));
    let uri = base_url.parse::<tokio_tungstenite::tungstenite::http::Uri>();
    let problem = || OptionProblem::new("base_url", "is no WebSocket address").hint(format!("write it like {example}"));
    (host.is_none_or(str::is_empty) || uri.is_err()).then(problem)
}

pub(super) fn within(path: &str, value: Option<f64>, min: f64, max: f64) -> Option<OptionProblem> {
    let value = value.filter(|value| !(min..=max).contains(value))?;
    Some(OptionProblem::new(path, format!("{value} is not within {min} and {max}")))
}
