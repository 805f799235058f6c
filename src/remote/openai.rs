//! Servers with OpenAI's HTTP interface, the vendor's own or one of the many that offer the same.

use super::checks;
use crate::config::OptionProblem;
use reqwest::{Client, RequestBuilder};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

const BASE_URL: &str = "https://api.openai.com/v1";

/// Where it is, and the key: a part of the options of each kind that speaks with one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Server {
    /// The key; write `${OPENAI_API_KEY}` rather than the key itself. Servers of your own often want none.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    api_key: Option<SecretString>,
    /// Another server with the same protocol; the path of what is asked for is added.
    #[serde(default = "base_url")]
    base_url: String,
}

fn base_url() -> String {
    BASE_URL.into()
}

impl Server {
    pub fn problems(&self) -> Vec<OptionProblem> {
        let key = self.api_key.as_ref().and_then(|key| checks::secret("api_key", key, "OPENAI_API_KEY"));
        key.into_iter().chain(checks::http("base_url", &self.base_url, BASE_URL)).collect()
    }

    /// A request to this path.
    pub fn post(&self, client: &Client, path: &str) -> RequestBuilder {
        let request = client.post(format!("{}{path}", self.base_url.trim_end_matches('/')));
        match &self.api_key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }

    /// Others refuse what they do not know.
    pub fn is_vendor(&self) -> bool {
        let url = Url::parse(&self.base_url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        ["api.openai.com", ".api.openai.com", ".openai.azure.com"]
            .iter()
            .any(|vendor| host == *vendor || vendor.starts_with('.') && host.ends_with(vendor))
    }
}
