//! What happened in a call, one line each: in the page of a running call and in that of one that has ended.

use super::{figures, text};
use crate::records::{Entry, Event};
use maud::{Markup, html};

/// `None`: of no interest in a list, though on the time axis.
pub fn line(entry: &Entry) -> Option<Markup> {
    let at = figures::offset(entry.at_ms);
    if let Event::Said { speaker, text: said } = &entry.event {
        let agent = speaker == "agent";
        return Some(html! {
            li.said.agent[agent].caller[!agent] data-at=(entry.at_ms) {
                span.at { (at) }
                span.who { @if agent { (text::AGENT) } @else { (text::CALLER) } }
                p { (said) }
            }
        });
    }
    let (kind, words) = text::event(&entry.event)?;
    Some(html! { li.event.(kind) data-at=(entry.at_ms) { span.at { (at) } p { (words) } } })
}
