//! Checks that the options of several services share.

use super::http;
use crate::config::OptionProblem;
use reqwest::Client;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_tungstenite::tungstenite::http::Uri;
use url::Url;

/// The options of one kind of provider, voice or other service: what their types refuse, and what
/// [`problems`](Self::problems) finds. A row of kinds has `schema: schema::<Options>`, `check: mistakes::<Options>`, and
/// its `build` begins with [`read`].
pub trait Checked: DeserializeOwned + JsonSchema {
    /// Every mistake that can be found without side effects.
    fn problems(&self) -> Vec<OptionProblem>;
}

/// JSON Schema of the options.
pub fn schema<T: Checked>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// Reads options without a mistake. A schema check has usually found those of their shape before, with better paths.
pub fn read<T: Checked>(options: &Value) -> Result<T, Vec<OptionProblem>> {
    let options = T::deserialize(options).map_err(|error| vec![OptionProblem::new("", error.to_string())])?;
    let problems = options.problems();
    if problems.is_empty() { Ok(options) } else { Err(problems) }
}

/// The mistakes in options.
pub fn mistakes<T: Checked>(options: &Value) -> Vec<OptionProblem> {
    read::<T>(options).err().unwrap_or_default()
}

/// An HTTP client for a service that is configured.
pub fn client() -> Result<Client, Vec<OptionProblem>> {
    http::client().map_err(|error| vec![OptionProblem::new("", format!("no HTTP client can be made: {error}"))])
}

/// A key or token that travels in a header; `variable` is where it usually comes from.
pub fn secret(path: &str, secret: &SecretString, variable: &str) -> Option<OptionProblem> {
    let secret = secret.expose_secret();
    if secret.trim().is_empty() {
        return Some(OptionProblem::new(path, "is empty").hint(format!("set {variable}")));
    }
    (!header_value(secret)).then(|| OptionProblem::new(path, "holds a space or a control character"))
}

pub fn header_value(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

pub fn web_socket(path: &str, address: &str, example: &str) -> Option<OptionProblem> {
    let host = ["wss://", "ws://"].into_iter().find_map(|scheme| address.strip_prefix(scheme));
    let good = host.is_some_and(|host| !host.is_empty()) && address.parse::<Uri>().is_ok();
    (!good).then(|| OptionProblem::new(path, "is no WebSocket address").hint(format!("write it like {example}")))
}

/// Where a service over bare TCP is.
pub fn host_and_port(path: &str, address: &str, example: &str) -> Option<OptionProblem> {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    let good = parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let problem = || OptionProblem::new(path, "is no host with a port");
    (!good).then(|| problem().hint(format!("write it like {example}")))
}

/// Where a service over HTTP begins; paths are added to it.
pub fn http(path: &str, address: &str, example: &str) -> Option<OptionProblem> {
    let plain = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    };
    let good = Url::parse(address).is_ok_and(|url| plain(&url));
    let problem = || OptionProblem::new(path, "is not an http:// or https:// address without credentials and query");
    (!good).then(|| problem().hint(format!("write it like {example}")))
}

/// A name as vendors give them to models, voices and agents: it is safe in an address as it is.
pub fn plain_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
}

/// A name that stands in an address or in a message as it is.
pub fn name(path: &str, name: &str, what: &str, example: &str) -> Option<OptionProblem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let good = !name.is_empty() && name.chars().all(plain);
    (!good).then(|| OptionProblem::new(path, format!("\"{name}\" is no {what}")).hint(format!("such as {example}")))
}

/// The default of `retries`.
pub const fn retries() -> u32 {
    2
}

/// How often is still no nuisance to a service that refuses.
pub fn few_retries(retries: u32) -> Option<OptionProblem> {
    within("retries", Some(f64::from(retries)), 0.0, 5.0)
}

/// A session that lasts for less is over before much could be said in it, for more than a day none is needed.
pub fn session_seconds(seconds: Option<u32>) -> Option<OptionProblem> {
    within("session_seconds", seconds.map(f64::from), 10.0, 86_400.0)
}

pub fn within(path: &str, value: Option<f64>, min: f64, max: f64) -> Option<OptionProblem> {
    let value = value.filter(|value| !(min..=max).contains(value))?;
    Some(OptionProblem::new(path, format!("{value} is not within {min} and {max}")))
}
