//! The registry of tools, and what is known of each.

use super::Params;
use crate::http::{
    login::{Door, Role},
    problem,
    routes::{Content, Doc, Routes, schema},
    site::App,
    view::{AuditLine, RegisteredTool, TenantTools},
};
use axum::{
    Json,
    extract::{Path, State},
    http::{Method, StatusCode},
    response::Response,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is looked for.
#[derive(Deserialize, JsonSchema)]
pub struct Wanted {
    /// Only tools that contexts of this tenant can list; empty: of no tenant.
    pub tenant: Option<String>,
    /// In names, descriptions, kinds, servers and contexts.
    pub search: Option<String>,
}

/// Whose tool.
#[derive(Deserialize, JsonSchema)]
pub struct Whose {
    /// Left out or empty: of no tenant; a tool that only one tenant has is that tenant's.
    pub tenant: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RegistryView {
    registries: Vec<TenantTools>,
}

#[derive(Serialize, JsonSchema)]
struct LastCalls {
    /// The newest first, fifty at most.
    lines: Vec<AuditLine>,
}

/// One tool.
#[derive(Serialize, JsonSchema)]
pub struct ToolView {
    #[serde(flatten)]
    pub tool: RegisteredTool,
    /// Of the registry that the tool is in.
    pub registry_version: String,
    /// The newest first.
    pub audit: Vec<AuditLine>,
}

pub fn add(routes: &mut Routes) {
    let doc =
        Doc::new("The tools of the running configuration: what agents are told, and what the gate makes of them.")
            .query::<Wanted>()
            .answer(200, "By tenant.", Content::Json(schema::<RegistryView>));
    routes.api(Method::GET, "/api/v1/registry", Door::Api(Role::Viewer), list, doc);
    let doc = Doc::new("One tool, with its last audit lines.").query::<Whose>().answer(
        200,
        "The tool.",
        Content::Json(schema::<ToolView>),
    );
    routes.api(Method::GET, "/api/v1/registry/{tool}", Door::Api(Role::Viewer), show, doc);
    let doc = Doc::new("The last audit lines of all tools, refused calls and made-up names among them.")
        .query::<Whose>()
        .answer(200, "Since the engine started.", Content::Json(schema::<LastCalls>));
    routes.api(Method::GET, "/api/v1/audit", Door::Api(Role::Viewer), audit, doc);
}

async fn audit(State(app): State<App>, Params(whose): Params<Whose>) -> Json<LastCalls> {
    let tenant = whose.tenant.filter(|tenant| !tenant.is_empty());
    Json(LastCalls { lines: app.view.tool_audits(tenant.as_deref(), None) })
}

async fn list(State(app): State<App>, Params(wanted): Params<Wanted>) -> Json<RegistryView> {
    Json(RegistryView { registries: find(&app, &wanted) })
}

async fn show(
    State(app): State<App>,
    Path(tool): Path<String>,
    Params(whose): Params<Whose>,
) -> Result<Json<ToolView>, Response> {
    let tenant = whose.tenant.filter(|tenant| !tenant.is_empty());
    let found = one(&app, tenant.as_deref(), &tool);
    found.map(Json).ok_or_else(|| problem(StatusCode::NOT_FOUND, "there is no tool of this name"))
}

pub fn find(app: &App, wanted: &Wanted) -> Vec<TenantTools> {
    let mut registries = app.view.tools();
    if let Some(tenant) = &wanted.tenant {
        registries.retain(|registry| registry.tenant.as_deref().unwrap_or_default() == tenant);
    }
    let search = wanted.search.as_deref().unwrap_or_default().trim().to_lowercase();
    for registry in &mut registries {
        registry.tools.retain(|tool| is_like(tool, &search));
    }
    registries
}

fn is_like(tool: &RegisteredTool, search: &str) -> bool {
    let texts = [tool.name.as_str(), &tool.description, tool.kind, tool.server.as_deref().unwrap_or_default()];
    let mut texts = texts.into_iter().chain(tool.contexts.iter().map(String::as_str));
    texts.any(|text| text.to_lowercase().contains(search))
}

pub fn one(app: &App, tenant: Option<&str>, name: &str) -> Option<ToolView> {
    let has_it = |registry: &TenantTools| registry.tools.iter().any(|tool| tool.name == name);
    let mut registries: Vec<_> = app.view.tools().into_iter().filter(has_it).collect();
    let wanted = registries.iter().position(|registry| registry.tenant.as_deref() == tenant);
    let only = (tenant.is_none() && registries.len() == 1).then_some(0);
    let registry = registries.swap_remove(wanted.or(only)?);
    let audit = app.view.tool_audits(registry.tenant.as_deref(), Some(name));
    let tool = registry.tools.into_iter().find(|tool| tool.name == name)?;
    Some(ToolView { tool, registry_version: registry.version, audit })
}
