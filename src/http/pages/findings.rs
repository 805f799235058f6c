//! What is to be said of a text of the configuration: problems by line, and the difference to what runs.

use super::text::{self, contexts as words};
use crate::{config::Problem, http::Verdict};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// More are no help at once: the first ones are mended first.
const PROBLEMS_SHOWN_MAX: usize = 100;
const LINES_SHOWN_MAX: usize = 2_000;
/// Lines around one with a problem.
const AROUND: usize = 2;

/// The two parts have ids: the script keeps them fresh while somebody types. `given`: of what text.
pub fn report(verdict: &Verdict, given: &str) -> Markup {
    let Verdict { problems, warnings, difference } = verdict;
    html! {
        p #verdict.state.good[problems.is_empty()].bad[!problems.is_empty()] role="status" { (words::problems(problems.len(), warnings.len())) }
        div #findings {
            @if !(problems.is_empty() && warnings.is_empty()) { (list(problems, warnings)) }
            @if !problems.is_empty() { (excerpt(problems, given)) }
            @if !difference.is_empty() { (shown(difference)) }
        }
    }
}

fn list(problems: &[Problem], warnings: &[Problem]) -> Markup {
    let shown = problems.iter().map(|problem| (problem, false)).chain(warnings.iter().map(|warning| (warning, true)));
    let left_out = (problems.len() + warnings.len()).saturating_sub(PROBLEMS_SHOWN_MAX);
    html! {
        ol.problems {
            @for (problem, warning) in shown.take(PROBLEMS_SHOWN_MAX) {
                li.warning[warning] data-line=(problem.line) {
                    @if problem.line > 0 {
                        a href={ "#line-" (problem.line) } { (words::LINE) " " (problem.line) }
                    } @else { span { (words::WHOLE) } }
                    p {
                        @if !problem.path.is_empty() { code { (problem.path) } " " }
                        @if warning { (words::WARNING) " " }
                        (problem.message)
                        @if let Some(hint) = &problem.hint { " – " (hint) }
                    }
                }
            }
            @if left_out > 0 { li { span {} p { (words::more(left_out)) } } }
        }
    }
}

/// The lines with problems, numbered, and some around them: where there are no scripts, this is what problems lead to.
fn excerpt(problems: &[Problem], given: &str) -> Markup {
    let bad: BTreeSet<usize> = problems.iter().take(PROBLEMS_SHOWN_MAX).map(|problem| problem.line).collect();
    let near = |line: usize| bad.range(line.saturating_sub(AROUND)..=line + AROUND).next().is_some();
    let lines = given.lines().zip(1..).filter(|(_, number)| near(*number));
    html! {
        div.excerpt.card tabindex="0" role="group" aria-label=(words::EXCERPT) {
            @for (line, number) in lines {
                div #{ "line-" (number) } .bad[bad.contains(&number)] { span { (number) } code { (line) } }
            }
        }
    }
}

/// A difference as `diff -u` writes it.
pub fn shown(difference: &str) -> Markup {
    html! {
        section aria-labelledby="difference" {
            h2 #difference { (words::DIFFERENCE) }
            (lines(difference, "difference"))
        }
    }
}

/// Its lines, under the heading of this id.
pub fn lines(difference: &str, heading: &str) -> Markup {
    html! {
        pre.diff.card tabindex="0" role="group" aria-labelledby=(heading) {
            @for line in difference.lines().take(LINES_SHOWN_MAX) {
                @match line.as_bytes().first() {
                    Some(b'+') => ins { (line) },
                    Some(b'-') => del { (line) },
                    Some(b'@') => span { (line) },
                    _ => i { (line) },
                }
            }
            @if difference.lines().nth(LINES_SHOWN_MAX).is_some() { (words::MORE_LINES) }
        }
    }
}

/// What was done or could not be, over the page.
pub fn notice(told: &str, bad: bool, more: &[String]) -> Markup {
    html! {
        div.notice.bad[bad].good[!bad] role=(if bad { "alert" } else { "status" }) {
            p { strong { (text::sentence(told)) } }
            @if !more.is_empty() { ul { @for line in more { li { (line) } } } }
        }
    }
}
