//! Texts that are taken as they stand, and more likely mean something else.

use super::{
    problem::{Path, Report},
    tree::{Kind, Node},
};

pub(super) fn warnings(root: &Node, report: &mut Report) {
    look(root, &Path::default(), report);
    let url = Path::default().key("asterisk").key("url");
    if let Some(Node { line, kind: Kind::Scalar { value, .. } }) = root.at(&url)
        && value.as_str().is_some_and(|url| url.trim_end_matches('/').ends_with("/ari"))
    {
        let hint = "leave /ari out, unless it is the prefix of http.conf";
        report.add(*line, &url, "/ari is added by offhook, so it is asked for twice", Some(hint.into()));
    }
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
