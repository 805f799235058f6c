//! Styles and scripts: inside the program, and named by what is in them, so that a browser can keep them for good.

use crate::http::problem;
use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use sha2::{Digest as _, Sha256};
use std::{fmt::Write as _, sync::LazyLock};

const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

static STYLE: Asset =
    Asset { name: "page.css", kind: "text/css; charset=utf-8", text: include_str!("../assets/page.css") };
static SCRIPT: Asset =
    Asset { name: "page.js", kind: "text/javascript; charset=utf-8", text: include_str!("../assets/page.js") };
static ICON: Asset = Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("../assets/icon.svg") };

static EDITOR: Asset =
    Asset { name: "editor.js", kind: "text/javascript; charset=utf-8", text: include_str!("../assets/editor.js") };

static ALL: [&Asset; 4] = [&STYLE, &SCRIPT, &ICON, &EDITOR];
static NAMES: LazyLock<[String; 4]> = LazyLock::new(|| ALL.map(Asset::hashed));

impl Asset {
    /// `page.0123456789abcdef.css`
    fn hashed(&self) -> String {
        let (stem, end) = self.name.split_once('.').unwrap_or((self.name, ""));
        let mut name = format!("{stem}.");
        for byte in Sha256::digest(self.text).iter().take(8) {
            // A text takes everything.
            let _ = write!(name, "{byte:02x}");
        }
        format!("{name}.{end}")
    }
}

/// Where a page finds its style, its script and its icon; and the script of the editor.
pub fn paths() -> [String; 4] {
    NAMES.each_ref().map(|name| format!("/assets/{name}"))
}

pub async fn asset(Path(name): Path<String>) -> Response {
    let found = NAMES.iter().position(|known| *known == name).and_then(|index| ALL.get(index));
    let Some(asset) = found else { return problem(StatusCode::NOT_FOUND, "there is no such file") };
    let kind = HeaderValue::from_static(asset.kind);
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, FOR_GOOD)], asset.text).into_response()
}
