//! Texts that are taken as they stand, and more likely mean something else.

use super::{
    catalog::Catalog,
    problem::{Path, Report},
    tree::{Kind, Node},
};
use serde_json::Value;

pub(super) fn warnings(root: &Node, catalog: &Catalog, report: &mut Report) {
    look(root, &Path::default(), report);
    addresses(root, catalog, report);
    let url = Path::default().key("asterisk").key("url");
    if let Some(Node { line, kind: Kind::Scalar { value, .. } }) = root.at(&url)
        && value.as_str().is_some_and(|url| url.trim_end_matches('/').ends_with("/ari"))
    {
        let hint = "leave /ari out, unless it is the prefix of http.conf";
        report.add(*line, &url, "/ari is added by offhook, so it is asked for twice", Some(hint.into()));
    }
}

/// Addresses of services whose path is not what their kind takes: some take the whole of it, others add to it.
fn addresses(root: &Node, catalog: &Catalog, report: &mut Report) {
    let of_providers = catalog.providers.iter().map(|row| ("providers", row.kind, &row.schema));
    let of_services = ["stt", "llm", "voices"].into_iter().flat_map(|section| {
        let (_, kinds) = catalog.services(section).unwrap_or_default();
        kinds.iter().map(move |row| (section, row.kind, &row.schema))
    });
    for (section, kind, schema) in of_providers.chain(of_services) {
        let place = Path::default().key(section);
        let Some(usual) = schema.pointer("/properties/base_url/default").and_then(Value::as_str) else { continue };
        let Some(Node { kind: Kind::Map(entries), .. }) = root.at(&place) else { continue };
        for entry in entries {
            let place = place.key(&entry.key).key(kind).key("base_url");
            let Some(Node { line, kind: Kind::Scalar { value, .. } }) = root.at(&place) else { continue };
            if let Some((message, hint)) = value.as_str().and_then(|written| wrong_path(written, usual)) {
                report.add(*line, &place, message, Some(hint));
            }
        }
    }
}

/// Mistake in the path of an address, and its remedy; `usual` is the vendor's own address.
fn wrong_path(written: &str, usual: &str) -> Option<(String, String)> {
    /// Ends of the addresses that vendors' pages show, of kinds that add them.
    const ADDED: [&str; 5] = ["/chat/completions", "/audio/transcriptions", "/audio/speech", "/listen", "/speak"];
    let [path, whole] = [written, usual].map(path_of);
    if !path.is_empty() && whole.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) {
        let message = format!("the path is {path}, and the whole path is wanted");
        return Some((message, format!("as in {usual}")));
    }
    // Where the vendor's own path is longer, it is whole, and nothing is added.
    let added = match whole {
        "" => ADDED.into_iter().chain(["/v1"]).find(|end| path.ends_with(end))?,
        "/v1" => ADDED.into_iter().find(|end| path.ends_with(end))?,
        _ => return None,
    };
    Some((format!("{added} is added by offhook, so it is asked for twice"), format!("leave it out, as in {usual}")))
}

/// The path of an address without its last slash.
fn path_of(address: &str) -> &str {
    let behind_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    let until_query = behind_scheme.split(['?', '#']).next().unwrap_or_default();
    until_query.find('/').map_or("", |at| until_query[at..].trim_end_matches('/'))
}

fn look(node: &Node, path: &Path, report: &mut Report) {
    match &node.kind {
        Kind::Map(entries) => entries.iter().for_each(|entry| look(&entry.node, &path.key(&entry.key), report)),
        Kind::List(items) => items.iter().enumerate().for_each(|(index, item)| look(item, &path.index(index), report)),
        Kind::Scalar { value, from_env: false, .. } => {
            // Not shown: it may be a password.
            let slip = value.as_str().and_then(|text| match text {
                text if is_bare_variable(text) => Some((
                    "the text is taken as it stands, with its $",
                    "write ${NAME} for a variable of the environment",
                )),
                text if is_in_curly_quotes(text) => {
                    Some(("the curly quotation marks are part of the text", "write straight ones: \"…\""))
                }
                _ => None,
            });
            slip.into_iter().for_each(|(message, hint)| report.add(node.line, path, message, Some(hint.into())));
        }
        Kind::Scalar { .. } | Kind::Broken => {}
    }
}

/// `$ARI_PASSWORD`, as a shell takes it.
fn is_bare_variable(text: &str) -> bool {
    let of_a_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.strip_prefix('$').is_some_and(|name| name.len() > 2 && name.bytes().all(of_a_name))
}

/// Tells whether a text stands in the quotation marks of word processors.
fn is_in_curly_quotes(text: &str) -> bool {
    let marks = ['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}'];
    text.chars().count() > 1 && text.starts_with(marks) && text.ends_with(marks)
}
