//! *MCP*: the servers, whether they are up, what tools they bring, and a test of each.

mod draft;
mod editor;

use super::{
    shell, system,
    text::{self, operations as words, servers},
    tools::encoded,
};
use crate::config::vam::ID_PREFIX;
use crate::http::{
    api::mcp_servers::BODY_BYTES_MAX,
    login::{Door, Role, Who},
    plain::{McpTestReport, load_anew, try_server},
    routes::Routes,
    site::App,
    view::{McpServerView, McpToolView},
};
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde::Deserialize;

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/mcp", Door::Page(Role::Viewer), page);
    routes.page(Method::POST, "/mcp", Door::Page(Role::Admin), test);
    routes.page(Method::POST, "/mcp/reload", Door::Page(Role::Admin), reload);
    routes.page(Method::GET, "/mcp/editor", Door::Page(Role::Admin), editor::page);
    // A form sends up to three bytes for each.
    routes.long_form("/mcp/editor", Door::Page(Role::Admin), 3 * BODY_BYTES_MAX, editor::act);
}

#[derive(Deserialize)]
struct Asked {
    server: String,
}

type Tested = (String, Result<McpTestReport, &'static str>);

async fn page(State(app): State<App>, who: Who) -> Markup {
    show(&app, &who, None, &html! {})
}

/// The file, loaded anew: servers that it has changed are started again, the others are left alone.
async fn reload(State(app): State<App>, who: Who) -> Response {
    let (status, told) = system::reloaded(load_anew(app.clone(), &who.name).await);
    (status, show(&app, &who, None, &told)).into_response()
}

/// Tests a server, and shows what came of it among the others.
async fn test(State(app): State<App>, who: Who, form: Result<Form<Asked>, FormRejection>) -> Response {
    let Ok(Form(Asked { server })) = form else {
        return shell::refusal(&who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE);
    };
    let (status, result) = match try_server(&app, server.clone()).await {
        Ok(report) => (StatusCode::OK, Ok(report)),
        Err((status, why)) => (status, Err(why)),
    };
    (status, show(&app, &who, Some((server, result)), &html! {})).into_response()
}

fn show(app: &App, who: &Who, tested: Option<Tested>, told: &Markup) -> Markup {
    let status = app.view.mcp_status();
    let of = |id: &str| tested.as_ref().filter(|(server, _)| server == id).map(|(_, result)| result);
    // A server that is gone meanwhile has no section of its own.
    let nowhere = tested.as_ref().filter(|(server, _)| !status.servers.contains_key(server));
    let main = html! {
        div.title {
            h1 { (words::MCP_TITLE) }
            @if who.may(Role::Admin) {
                div.buttons {
                    form method="post" action="/mcp/reload" { (shell::csrf(who)) button.quiet { (words::RELOAD_FILE) } }
                    a.button href="/mcp/editor" { (servers::ADD) }
                }
            }
        }
        (told)
        @if status.reload_pending { p.notice role="status" { (words::PENDING) } }
        @if let Some((_, Err(why))) = nowhere { p.notice.bad role="alert" { (text::sentence(why)) } }
        @if !status.enabled || status.servers.is_empty() {
            div.empty {
                h2 { @if status.enabled { (words::MCP_NONE) } @else { (words::MCP_OFF) } }
                p { (words::MCP_HELP) }
                pre { "mcp:\n  enabled: true\n  servers:\n    NAME:\n      transport: stdio\n      command: [PROGRAM]" }
            }
        }
        @for (index, (id, server)) in status.servers.iter().enumerate() { (section(who, index, id, server, of(id))) }
    };
    shell::page(who, "/mcp", words::MCP_TITLE, &main)
}

fn section(
    who: &Who,
    index: usize,
    id: &str,
    server: &McpServerView,
    tested: Option<&Result<McpTestReport, &'static str>>,
) -> Markup {
    let label = format!("server-{index}");
    html! {
        section aria-labelledby=(label) {
            div.title {
                h2 #(label) { (id) " " span.soft { (server.transport) } }
                div.buttons {
                    span.tag.(mark(server.state)) { (words::server(server.state)) }
                    @if who.may(Role::Admin) {
                        // Those that register themselves are not in the file.
                        @if !id.starts_with(ID_PREFIX) {
                            a.button.quiet href={ "/mcp/editor?server=" (encoded(id)) } { (servers::EDIT) span.hidden { " " (id) } }
                        }
                        form method="post" action={ "/mcp#" (label) } {
                            (shell::csrf(who))
                            input type="hidden" name="server" value=(id);
                            button.quiet title=(words::TEST_HELP) { (words::TEST) span.hidden { " " (id) } }
                        }
                    }
                }
            }
            @if let Some(result) = tested { (report(result)) }
            dl.facts {
                div { dt { (text::TOOLS) } dd { (server.tools.iter().filter(|tool| tool.registered).count()) } }
                div { dt { (words::RESTARTS) } dd { (server.restarts) } }
                @if let Some(error) = &server.last_error { div.wide { dt { (words::LAST_ERROR) } dd { (error) } } }
            }
            @if !server.missing.is_empty() {
                p.notice.bad { (words::MISSING) " " (server.missing.join(", ")) }
            }
            @if server.tools.is_empty() { p.empty { (words::NO_MCP_TOOLS) } } @else { (tools(&label, &server.tools)) }
        }
    }
}

fn mark(state: &str) -> &'static str {
    match state {
        "up" => "normal",
        "starting" => "limit",
        "disabled" => "other",
        _ => "provider",
    }
}

fn tools(label: &str, tools: &[McpToolView]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby=(label) {
            table.cards {
                thead { tr {
                    th scope="col" { (words::EXPOSED) }
                    th scope="col" { (words::SERVER_TOOL) }
                    th scope="col" { (words::USABLE) }
                } }
                tbody { @for tool in tools {
                    tr {
                        th scope="row" { code { (super::figures::or_dash(tool.exposed_name.as_deref())) } }
                        td data-head=(words::SERVER_TOOL) { code { (tool.name) } }
                        td data-head=(words::USABLE) {
                            @if tool.registered { (words::YES) } @else { (words::NO) }
                            @if let Some(reason) = &tool.reason { " – " (reason) }
                        }
                    }
                } }
            }
        }
    }
}

fn report(result: &Result<McpTestReport, &'static str>) -> Markup {
    let report = match result {
        Ok(report) => report,
        Err(why) => return html! { p.notice.bad role="alert" { (text::sentence(why)) } },
    };
    html! {
        div.card.report role="status" {
            p { strong { @if report.ok { (words::WORKS) } @else { (words::WORKS_NOT) } } " " span.soft { (text::seconds(report.duration_ms)) } }
            @if let Some(error) = &report.error { p.notice.bad { (error) } }
            @if !report.tools.is_empty() {
                ul { @for tool in &report.tools {
                    li {
                        code { (tool.name) } "(" (tool.arguments.join(", ")) ")"
                        @if let Some(access) = tool.access { " " span.soft { (words::TOUCHES) ": " (access) } }
                        @if let Some(description) = &tool.description { p.soft { (description) } }
                        @if let Some(reason) = &tool.reason { p.notice.bad { (reason) } }
                    }
                } }
            }
        }
    }
}
