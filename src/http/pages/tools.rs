//! *Tools*: the registry; one tool; and the editor of declarative ones.

mod draft;
mod editor;
mod one;

use super::{
    shell,
    text::{self, tools as words},
};
use crate::http::{
    api::{
        Params,
        registry::{Wanted, find},
    },
    login::{Door, Role, Who},
    routes::Routes,
    site::App,
    view::{RegisteredTool, TenantTools, ToolFigures},
};
use crate::tool::declarative::DEFINITION_BYTES_MAX;
use axum::{extract::State, http::Method};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Of a definition, of which a form sends up to three bytes for each.
const FORM_BYTES_MAX: usize = 3 * DEFINITION_BYTES_MAX;

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/tools", Door::Page(Role::Viewer), page);
    routes.page(Method::GET, "/tools/{tool}", Door::Page(Role::Viewer), one::page);
    routes.page(Method::GET, "/tool-editor", Door::Page(Role::Admin), editor::page);
    routes.long_form("/tool-editor", Door::Page(Role::Admin), FORM_BYTES_MAX, editor::act);
}

/// Without a tenant in the address, the first one there is.
async fn page(State(app): State<App>, who: Who, Params(wanted): Params<Wanted>) -> Markup {
    let tenants: Vec<Option<String>> = app.view.tools().into_iter().map(|registry| registry.tenant).collect();
    let first = || tenants.iter().flatten().next().cloned().unwrap_or_default();
    let tenant = wanted.tenant.unwrap_or_else(first);
    let wanted = Wanted { tenant: Some(tenant.clone()), ..wanted };
    let registry = find(&app, &wanted).pop();
    let is_editable = who.may(Role::Admin) && app.tools.tenants().contains(&tenant);
    let main = html! {
        div.title {
            h1 { (text::TOOLS) }
            @if is_editable { a.button href={ "/tool-editor?tenant=" (encoded(&tenant)) } { (words::NEW) } }
        }
        (filter(&tenants, &tenant, wanted.search.as_deref()))
        @match &registry {
            None => { p.empty { (words::NONE_FOUND) } }
            Some(registry) => {
                (list(&tenant, registry))
                (one::last_calls(words::AUDIT_OF_ALL, &app.view.tool_audits(registry.tenant.as_deref(), None)))
            }
        }
    };
    shell::page(&who, "/tools", text::TOOLS, &main)
}

/// For an address.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Where a tool of a tenant is shown.
fn address(tenant: &str, tool: &str) -> String {
    format!("/tools/{}?tenant={}", encoded(tool), encoded(tenant))
}

fn filter(tenants: &[Option<String>], chosen: &str, search: Option<&str>) -> Markup {
    html! {
        form.filter.card method="get" action="/tools" {
            @if tenants.len() > 1 {
                label { span { (words::TENANT) } select name="tenant" {
                    @for tenant in tenants {
                        @let name = tenant.as_deref().unwrap_or_default();
                        option value=(name) selected[name == chosen] { @if name.is_empty() { (words::NO_TENANT) } @else { (name) } }
                    }
                } }
            }
            label { span { (words::SEARCH_FOR) } input type="search" name="search" value=(search.unwrap_or_default()); }
            div.buttons { button { (text::SEARCH) } a.button.quiet href="/tools" { (text::CLEAR) } }
        }
    }
}

fn list(tenant: &str, registry: &TenantTools) -> Markup {
    html! {
        section aria-labelledby="registry" {
            div.title {
                h2 #registry { (words::COUNT) " " span.soft { (registry.tools.len()) } }
                span.soft { (words::VERSION) " " code { (registry.version) } }
            }
            @if registry.tools.is_empty() { p.empty { (words::NONE_FOUND) } } @else {
                div.scroll tabindex="0" role="group" aria-labelledby="registry" {
                    table.cards {
                        thead { tr {
                            @for head in [words::NAME, words::KIND, words::ACCESS, words::LISTED_BY] { th scope="col" { (head) } }
                            @for head in [words::CALLS, words::USUALLY] { th.number scope="col" { (head) } }
                        } }
                        tbody { @for tool in &registry.tools { (row(tenant, tool)) } }
                    }
                }
            }
        }
    }
}

fn row(tenant: &str, tool: &RegisteredTool) -> Markup {
    html! {
        tr {
            th scope="row" {
                a href=(address(tenant, &tool.name)) { code { (tool.name) } }
                p.soft.told { (summary(&tool.description)) }
            }
            td data-head=(words::KIND) {
                (words::kind(tool.kind)) @if let Some(server) = &tool.server { " " span.soft { (server) } }
            }
            td data-head=(words::ACCESS) { (plain(tool.policy.access)) }
            td data-head=(words::LISTED_BY) { (super::figures::or_dash(Some(&tool.contexts.join(", ")))) }
            td.number data-head=(words::CALLS) { (calls(&tool.figures)) }
            td.number data-head=(words::USUALLY) { (took(tool.figures.median_ms)) }
        }
    }
}

/// The first sentence of a description, and no more than a line or two of it: servers write what they like.
fn summary(description: &str) -> String {
    const CHARS_MAX: usize = 140;
    let end = description.find(". ").map_or(description.len(), |at| at + 1);
    let (sentence, more) = (&description[..end], description[..end].chars().count() > CHARS_MAX);
    let mut short: String = sentence.chars().take(CHARS_MAX).collect();
    if more {
        short.push('…');
    }
    short
}

fn calls(figures: &ToolFigures) -> Markup {
    let missed = figures.calls() - figures.done();
    html! { (figures.calls()) @if missed > 0 { " " span.soft { "(" (missed) " " (words::NOT_DONE) ")" } } }
}

fn took(ms: Option<u64>) -> String {
    ms.map_or_else(|| "–".into(), text::seconds)
}

/// A word of the contract, as people write it.
fn plain(word: &str) -> String {
    word.replace('_', " ")
}
