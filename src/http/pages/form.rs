//! Fields of forms, each with what is wrong with it.

use super::text::tools as words;
use maud::{Markup, html};

/// One thing that is wrong with what was sent.
pub struct Wrong {
    /// Of the form; empty or another's: it is told at the top alone.
    pub field: String,
    /// Where it is in what the form makes: `actions[2].url`; empty for the whole.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

/// Value of `data-kept`, on a form that the script keeps from being left with something unsaved; `unsaved`: what is in it is not
/// what is stored.
pub const fn kept(unsaved: bool) -> &'static str {
    if unsaved { "unsaved" } else { "saved" }
}

/// All that is wrong, each with the way to its field.
pub fn summary(title: &str, wrongs: &[Wrong]) -> Markup {
    html! {
        @if !wrongs.is_empty() {
            div.notice.bad role="alert" {
                p { strong { (title) } }
                ul { @for wrong in wrongs { li {
                    @if wrong.path.is_empty() { (words::WHOLE) }
                    @else if wrong.field.is_empty() { code { (wrong.path) } }
                    @else { a href={ "#" (wrong.field) } { code { (wrong.path) } } }
                    (told(wrong))
                } } }
            }
        }
    }
}

fn told(wrong: &Wrong) -> Markup {
    html! { ": " (wrong.message) @if let Some(hint) = &wrong.hint { " (" (hint) ")" } }
}

/// One field with its label, its help, and what is wrong with it. `input` is told by which ids it is described, and whether
/// it is wrong.
pub fn field(
    id: &str,
    label: &str,
    help: &str,
    wrongs: &[Wrong],
    input: &dyn Fn(&str, Option<&str>) -> Markup,
) -> Markup {
    let own: Vec<_> = wrongs.iter().filter(|wrong| wrong.field == id).collect();
    let (help_id, wrong_id) = (format!("{id}-help"), format!("{id}-wrong"));
    let described = [(!own.is_empty(), &wrong_id), (!help.is_empty(), &help_id)];
    let described: Vec<_> = described.iter().filter(|(is, _)| *is).map(|(_, id)| id.as_str()).collect();
    html! {
        div.field.wrong[!own.is_empty()] {
            label for=(id) { (label) }
            @if !help.is_empty() { p.soft #(help_id) { (help) } }
            (input(&described.join(" "), (!own.is_empty()).then_some("true")))
            @if !own.is_empty() {
                ul.wrongs #(wrong_id) { @for wrong in &own { li { code { (wrong.path) } (told(wrong)) } } }
            }
        }
    }
}

/// Code, in as many lines as it has.
pub fn area(id: &str, label: &str, help: &str, text: &str, wrongs: &[Wrong]) -> Markup {
    let rows = text.lines().count().clamp(1, 24) + 1;
    field(id, label, help, wrongs, &|described, wrong| {
        html! {
            textarea.code #(id) name=(id) rows=(rows) spellcheck="false" autocapitalize="none" autocomplete="off"
                aria-describedby=(described) aria-invalid=[wrong] { (text) }
        }
    })
}

/// A line.
pub fn line(id: &str, label: &str, help: &str, text: &str, wrongs: &[Wrong]) -> Markup {
    field(id, label, help, wrongs, &|described, wrong| {
        html! {
            input.code #(id) name=(id) value=(text) spellcheck="false" autocapitalize="none" autocomplete="off"
                aria-describedby=(described) aria-invalid=[wrong];
        }
    })
}

/// One of a few; an empty one is none.
pub fn choice(id: &str, label: &str, help: &str, of: &[(&str, &str)], chosen: &str, wrongs: &[Wrong]) -> Markup {
    field(id, label, help, wrongs, &|described, wrong| {
        html! {
            select #(id) name=(id) aria-describedby=(described) aria-invalid=[wrong] {
                @for (value, name) in of { option value=(value) selected[*value == chosen] { (name) } }
            }
        }
    })
}

pub fn check(id: &str, label: &str, checked: bool) -> Markup {
    html! { label.check { input type="checkbox" name=(id) value="yes" checked[checked]; " " (label) } }
}

pub fn hidden(fields: &[(&str, &str)]) -> Markup {
    html! { @for (name, value) in fields { input type="hidden" name=(name) value=(value); } }
}
