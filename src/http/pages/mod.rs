//! What people see. Each page is one file and one row of [`PAGES`]; every word of it stands in `text`.
//!
//! Pages are made here, whole, and work without scripts; scripts only keep fresh what is there. Everything that comes from
//! outside goes through the macro `html!`, which escapes it.

mod assets;
mod axis;
mod call;
mod contexts;
mod figures;
mod findings;
mod form;
mod history;
mod live;
mod mcp;
mod plot;
mod providers;
mod running;
mod shell;
mod story;
mod system;
pub(super) mod text;
mod tokens;
mod tools;
mod waveform;

pub(super) use shell::{log_in, readable_errors, refusal};

use super::{
    login::{Door, Role},
    routes::Routes,
};
use axum::http::Method;

/// A page in the navigation.
struct Page {
    path: &'static str,
    name: &'static str,
    /// Who sees it there.
    role: Role,
}

const PAGES: [Page; 7] = [
    Page { path: "/", name: text::LIVE, role: Role::Viewer },
    Page { path: "/history", name: text::HISTORY, role: Role::Viewer },
    Page { path: "/contexts", name: text::contexts::CONTEXTS, role: Role::Viewer },
    Page { path: "/providers", name: text::operations::PROVIDERS, role: Role::Viewer },
    Page { path: "/tools", name: text::TOOLS, role: Role::Viewer },
    Page { path: "/mcp", name: text::operations::MCP, role: Role::Viewer },
    Page { path: "/system", name: text::operations::SYSTEM, role: Role::Viewer },
];

pub(super) fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/assets/{name}", Door::Anybody, assets::asset);
    live::add(routes);
    running::add(routes);
    history::add(routes);
    call::add(routes);
    waveform::add(routes);
    contexts::add(routes);
    providers::add(routes);
    tools::add(routes);
    mcp::add(routes);
    system::add(routes);
    tokens::add(routes);
}
