//! Where an `api_call` goes.
//!
//! A value never decides which host is spoken to, unless that host is on the operator's list; below
//! the host it is one path segment or one query value, whatever it holds.

use super::{
    definition::{Method, Surroundings},
    fault::Fault,
    scene::Reading,
    template::{Part, Template, TemplateError, print},
};
use crate::tool::memory::{Path, Scope};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

/// Everything but the unreserved characters of RFC 3986.
pub(super) const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The prefix of a path that names an endpoint of the tenant's settings.
const ENDPOINTS: &str = "tenant.settings.endpoints.";
/// Of a finished address: more is refused by most servers.
const ADDRESS_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Address {
    /// As the definition writes it.
    pub(super) source: String,
    template: Template,
    /// Scheme, host and port, where the text of the definition decides them.
    origin: Option<url::Origin>,
    /// The endpoint's own.
    pub(super) method: Option<Method>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("there is no endpoint \"{0}\"")]
    UnknownEndpoint(String),
    #[error("\"{0}\" is no address: https://host/path")]
    Malformed(String),
    #[error("an address has no user name or password in it")]
    Credentials,
    #[error("a template cannot decide which host is called")]
    OpenHost,
}

impl Address {
    /// `parameters`: names that `{name}` in an endpoint can mean.
    pub(super) fn parse(
        source: &str,
        surroundings: &Surroundings,
        parameters: &[String],
    ) -> Result<Self, AddressError> {
        let mut method = None;
        let text = match endpoint_of(source) {
            Some((name, rest)) => {
                let endpoint = surroundings.endpoints.get(name);
                let endpoint = endpoint.ok_or_else(|| AddressError::UnknownEndpoint(name.to_owned()))?;
                method = endpoint.method;
                format!("{}{rest}", placeholders(&endpoint.url, parameters))
            }
            None => source.to_owned(),
        };
        let malformed = || AddressError::Malformed(text.clone());
        // The parser would repair these, and mean something else than what is read here.
        if text.contains('\\') || text.chars().any(char::is_control) || text != text.trim() {
            return Err(malformed());
        }
        let template = Template::parse(&text, Scope::Run)?;
        let Some(Part::Text(first)) = template.parts().first() else {
            return Self::open(source, template, method, surroundings);
        };
        if !origin_is_complete(first) && template.fixed().is_none() {
            return Self::open(source, template, method, surroundings);
        }
        // The parser would make a host of `https:x` and of `https:///x`.
        if first.split_once("://").is_none_or(|(_, after)| after.starts_with('/')) {
            return Err(malformed());
        }
        let url = Url::parse(first).map_err(|_| malformed())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(malformed());
        }
        if has_credentials(&url) {
            return Err(AddressError::Credentials);
        }
        Ok(Self { source: source.to_owned(), template, origin: Some(url.origin()), method })
    }

    fn open(
        source: &str,
        template: Template,
        method: Option<Method>,
        surroundings: &Surroundings,
    ) -> Result<Self, AddressError> {
        if template.parts().is_empty() {
            return Err(AddressError::Malformed(source.to_owned()));
        }
        if surroundings.allowed_hosts.is_empty() {
            return Err(AddressError::OpenHost);
        }
        Ok(Self { source: source.to_owned(), template, origin: None, method })
    }

    pub(super) fn paths<'a>(&'a self, found: &mut Vec<&'a Path>) {
        self.template.paths(found);
    }

    pub(super) fn fill(&self, reading: &Reading<'_>, allowed_hosts: &[String]) -> Result<String, Fault> {
        let wrong = |message: &str| Fault::permanent("address", message);
        let mut text = String::new();
        for part in self.template.parts() {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Value(path) => {
                    reading.required(path)?;
                    let value = print(&reading.value_or_null(path)?);
                    if !origin_is_complete(&text) && self.origin.is_none() {
                        text.push_str(&value);
                        continue;
                    }
                    // Nothing between two slashes is another resource: all of them, at many servers.
                    if value.is_empty() && !text.contains('?') {
                        let message = format!("{path} is needed in the address and is empty");
                        return Err(Fault::permanent("unresolved_template", message));
                    }
                    text.extend(utf8_percent_encode(&value, ENCODED));
                }
            }
        }
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(wrong("The address is too long."));
        }
        if text.contains('\\') || text.chars().any(char::is_control) || has_dot_segments(&text) {
            return Err(wrong("A value does not fit into the address."));
        }
        let url = Url::parse(&text).map_err(|_| wrong("The address is not complete."))?;
        if !matches!(url.scheme(), "http" | "https") || has_credentials(&url) {
            return Err(wrong("The address is not one of a web service."));
        }
        match &self.origin {
            Some(origin) if *origin != url.origin() => Err(wrong("A value would change the host.")),
            None if !is_listed(&url, allowed_hosts) => {
                Err(Fault::permanent("host_not_allowed", "The host is not on the operator's list."))
            }
            _ => Ok(url.into()),
        }
    }
}

/// The address an endpoint's name stands for.
pub(super) fn endpoint_template(name: &str) -> String {
    format!("{{{{{ENDPOINTS}{name}}}}}")
}

/// Name of the endpoint an address begins with, and what follows. Names may hold dots.
fn endpoint_of(source: &str) -> Option<(&str, &str)> {
    let (path, rest) = source.strip_prefix("{{")?.split_once("}}")?;
    Some((path.trim().strip_prefix(ENDPOINTS)?, rest))
}

/// `/users/{user_id}` → `/users/{{user.id}}`.
fn placeholders(url: &str, parameters: &[String]) -> String {
    let mut text = String::new();
    let mut rest = url;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        // Templates stay as they are.
        if let Some((template, after)) = from.strip_prefix("{{").and_then(|inner| inner.split_once("}}")) {
            text.push_str(&format!("{{{{{template}}}}}"));
            rest = after;
            continue;
        }
        let Some((name, after)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}')) else { break };
        text.push_str(&match name {
            _ if parameters.iter().any(|parameter| parameter == name) => format!("{{{{params.{name}}}}}"),
            "user_id" => "{{user.id}}".to_owned(),
            _ => format!("{{{{user.{name}}}}}"),
        });
        rest = after;
    }
    text + rest
}

/// Scheme, host and port are all there, and something of the path, too.
fn origin_is_complete(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, after)| after.contains(['/', '?', '#']))
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// `.` and `..`, also as `%2e`: the parser takes them as a way up.
fn has_dot_segments(text: &str) -> bool {
    let after = text.split_once("://").map_or(text, |(_, after)| after);
    let path = after.split(['?', '#']).next().unwrap_or_default();
    path.split('/').skip(1).any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    })
}

/// `host` with any port, or `host:port`.
fn is_listed(url: &Url, allowed_hosts: &[String]) -> bool {
    let Some(host) = url.host_str() else { return false };
    let with_port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
    allowed_hosts.iter().any(|listed| {
        listed.eq_ignore_ascii_case(host) || with_port.as_ref().is_some_and(|with| listed.eq_ignore_ascii_case(with))
    })
}

/// A value of a header. Control characters would begin another header.
pub(super) fn header_value(name: &str, template: &Template, reading: &Reading<'_>) -> Result<String, Fault> {
    let value = if name.eq_ignore_ascii_case("authorization") {
        template.fill_all(reading)?
    } else {
        template.fill(reading)?
    };
    if value.chars().any(char::is_control) {
        return Err(Fault::permanent("header", format!("A value does not fit into the header {name}.")));
    }
    Ok(value)
}

/// Headers whose values are shown to nobody.
pub(super) fn is_private_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "cookie", "key", "token", "secret", "password", "signature"]
        .iter()
        .any(|part| name.contains(part))
}

/// As a request is shown: private headers masked.
pub(super) fn shown_headers(headers: &[(String, String)]) -> Value {
    let entry = |(name, value): &(String, String)| {
        let value = if is_private_header(name) { super::secret::MASK } else { value.as_str() };
        (name.clone(), Value::from(value))
    };
    Value::Object(headers.iter().map(entry).collect())
}
