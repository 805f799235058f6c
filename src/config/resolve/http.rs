//! The section `http`.

use super::Resolver;
use crate::config::{HttpConfig, defaults, problem::Path, raw::Http};
use url::Url;

impl Resolver<'_> {
    pub(super) fn http(&mut self, raw: Http) -> HttpConfig {
        let at = Path::default().key("http");
        let accounts = raw.accounts.as_deref().unwrap_or(defaults::HTTP_ACCOUNTS);
        let public_url = raw.public_url.and_then(|text| {
            let url = public_url(&text);
            if url.is_none() {
                const EXPECTED: &str = "such as https://voice.example.com, without user, path and query";
                self.problem(
                    &at.key("public_url"),
                    "is not an http:// or https:// address of a host",
                    Some(EXPECTED.into()),
                );
            }
            url
        });
        HttpConfig {
            bind: self.parsed(raw.bind, defaults::HTTP_BIND, &at.key("bind")),
            admin_token: raw.admin_token.map(Into::into),
            // `.` in between, as a variable's default brings it, is left out.
            accounts: self.folder.join(accounts).components().collect(),
            public_url,
        }
    }
}

/// As browsers name it: scheme, host, and the port where it is not the usual one.
fn public_url(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    (bare && url.query().is_none() && url.fragment().is_none()).then(|| url.origin().ascii_serialization())
}
