//! The tenants' declarative tools, made and changed by admins. Tenants themselves have [`tools_api`](crate::http::tools_api).

use super::Body;
use crate::http::{
    login::{Door, Role},
    problem,
    routes::{Content, Doc, Routes, schema},
    site::App,
    tools_api::{BODY_BYTES_MAX, StoredTool, Trial, refusal, seen, tagged, unrun},
};
use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use uuid::Uuid;

/// A declarative tool as it is kept. Secrets that are written out in it are shown as `***`; who sends the mask back keeps them.
#[derive(Serialize, JsonSchema)]
struct KeptTool {
    id: Uuid,
    name: String,
    description: String,
    created_at: Timestamp,
    /// `parameters`, `actions`, `on_success`, `on_failure`, `policy`.
    config: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
struct KeptTools {
    /// By name.
    items: Vec<KeptTool>,
}

/// A declarative tool, flat or with its parts in `config`; `docs/declarative-tools.md` tells what may stand in each.
#[derive(Deserialize)]
#[serde(transparent)]
struct ToolDefinition(Map<String, Value>);

impl JsonSchema for ToolDefinition {
    fn schema_name() -> Cow<'static, str> {
        "ToolDefinition".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let objects = json!({ "type": "array", "items": { "type": "object" } });
        let parts = json!({
            "parameters": objects, "actions": objects, "on_success": objects, "on_failure": objects, "policy": { "type": "object" },
        });
        let config = json!({ "type": "object", "required": ["actions"], "properties": parts });
        let mut properties = parts;
        properties["name"] = json!({ "type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64 });
        properties["description"] = json!({ "type": "string" });
        properties["config"] = config;
        json_schema!({
            "description": "A declarative tool, flat or with its parts in `config` (docs/declarative-tools.md).",
            "type": "object",
            "required": ["name", "description"],
            "properties": properties,
            "oneOf": [{ "required": ["actions"] }, { "required": ["config"] }],
        })
    }
}

/// A dry run of a definition that is not kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Draft {
    definition: ToolDefinition,
    #[serde(default)]
    params: Map<String, Value>,
    #[serde(default)]
    user: Map<String, Value>,
    /// External services are really called.
    #[serde(default)]
    live: bool,
}

pub fn add(routes: &mut Routes) {
    let admin = Door::Api(Role::Admin);
    let kept = || Content::Json(schema::<KeptTool>);
    let conflict = "The name is taken or built in; tools are locked; there are as many as there may be; or the configuration \
                    lists the tool that is to be deleted.";
    let changed = "Somebody has changed the tool since the version of If-Match.";
    let unkept = "A file cannot be read or written; the log says why.";
    let doc = Doc::new("The declarative tools of a tenant.").answer(200, "All.", Content::Json(schema::<KeptTools>));
    routes.api(Method::GET, "/api/v1/tenants/{tenant}/tools", admin, list, doc.refusal(500, unkept));
    let doc = Doc::new("Makes a declarative tool. Calls that begin after it have it.")
        .body::<ToolDefinition>()
        .at_most(BODY_BYTES_MAX)
        .answer(201, "The tool, with its version as ETag.", kept())
        .refusal(409, conflict)
        .refusal(500, unkept);
    routes.api(Method::POST, "/api/v1/tenants/{tenant}/tools", admin, create, doc);
    let doc = Doc::new("One declarative tool.").answer(200, "The tool, with its version as ETag.", kept());
    routes.api(Method::GET, "/api/v1/tenants/{tenant}/tools/{tool}", admin, show, doc.refusal(500, unkept));
    let doc = Doc::new("The whole definition anew; with If-Match only where nobody else has changed it.")
        .body::<ToolDefinition>()
        .at_most(BODY_BYTES_MAX)
        .answer(204, "Kept, with its new version as ETag.", Content::Nothing)
        .refusal(409, conflict)
        .refusal(412, changed)
        .refusal(500, unkept);
    routes.api(Method::PUT, "/api/v1/tenants/{tenant}/tools/{tool}", admin, replace, doc);
    let doc = Doc::new("Deletes a declarative tool; with If-Match only where nobody else has changed it.")
        .answer(204, "Deleted.", Content::Nothing)
        .refusal(409, conflict)
        .refusal(412, changed)
        .refusal(500, unkept);
    routes.api(Method::DELETE, "/api/v1/tenants/{tenant}/tools/{tool}", admin, delete, doc);
    let trace = || Content::Json(schema::<Value>);
    let slow = "It took too long and was stopped.";
    let doc = Doc::new("Runs a kept tool outside of any call.")
        .body::<Trial>()
        .at_most(BODY_BYTES_MAX)
        .answer(200, "What came of it, and what each action did.", trace())
        .refusal(500, unkept)
        .refusal(504, slow);
    routes.api(Method::POST, "/api/v1/tenants/{tenant}/tools/{tool}/test", admin, test, doc);
    let doc =
        Doc::new("Runs a definition that is not kept. What is masked in it comes from the kept tool of its name.")
            .body::<Draft>()
            .at_most(BODY_BYTES_MAX)
            .answer(200, "What came of it, and what each action did.", trace())
            .refusal(500, unkept)
            .refusal(504, slow);
    routes.api(Method::POST, "/api/v1/tenants/{tenant}/test", admin, test_draft, doc);
}

/// A tenant that has tools of its own.
fn known(app: &App, tenant: &str) -> Result<(), Response> {
    let is_known = app.tools.tenants().iter().any(|known| known == tenant);
    is_known.then_some(()).ok_or_else(|| problem(StatusCode::NOT_FOUND, "there is no tenant of this name"))
}

fn kept(tool: StoredTool) -> KeptTool {
    let StoredTool { id, name, description, created_at, config, version: _ } = tool;
    KeptTool { id, name, description, created_at, config }
}

async fn list(State(app): State<App>, Path(tenant): Path<String>) -> Result<Json<KeptTools>, Response> {
    known(&app, &tenant)?;
    let tools = app.tools.list(&tenant).await.map_err(refusal)?;
    Ok(Json(KeptTools { items: tools.into_iter().map(kept).collect() }))
}

async fn show(State(app): State<App>, Path((tenant, tool)): Path<(String, String)>) -> Result<Response, Response> {
    known(&app, &tenant)?;
    Ok(whole(StatusCode::OK, app.tools.get(&tenant, &tool).await.map_err(refusal)?))
}

async fn create(
    State(app): State<App>,
    Path(tenant): Path<String>,
    Body(ToolDefinition(definition)): Body<ToolDefinition>,
) -> Result<Response, Response> {
    known(&app, &tenant)?;
    let tool = app.tools.create(&tenant, Value::Object(definition)).await.map_err(refusal)?;
    Ok(whole(StatusCode::CREATED, tool))
}

async fn replace(
    State(app): State<App>,
    Path((tenant, tool)): Path<(String, String)>,
    headers: HeaderMap,
    Body(ToolDefinition(definition)): Body<ToolDefinition>,
) -> Result<Response, Response> {
    known(&app, &tenant)?;
    let changed = app.tools.replace(&tenant, &tool, Value::Object(definition), seen(&headers)?);
    let version = changed.await.map_err(refusal)?.version;
    Ok(tagged(StatusCode::NO_CONTENT.into_response(), &version))
}

async fn delete(
    State(app): State<App>,
    Path((tenant, tool)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Response> {
    known(&app, &tenant)?;
    app.tools.delete(&tenant, &tool, seen(&headers)?).await.map_err(refusal)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn test(
    State(app): State<App>,
    Path((tenant, tool)): Path<(String, String)>,
    Body(trial): Body<Trial>,
) -> Result<Json<Value>, Response> {
    known(&app, &tenant)?;
    app.trials.run(app.tools.test(&tenant, &tool, trial)).await.map(Json).map_err(unrun)
}

async fn test_draft(
    State(app): State<App>,
    Path(tenant): Path<String>,
    Body(draft): Body<Draft>,
) -> Result<Json<Value>, Response> {
    known(&app, &tenant)?;
    let Draft { definition, params, user, live } = draft;
    let trial = app.tools.try_out(&tenant, Value::Object(definition.0), Trial { params, user, live });
    app.trials.run(trial).await.map(Json).map_err(unrun)
}

fn whole(status: StatusCode, tool: StoredTool) -> Response {
    let version = tool.version.clone();
    tagged((status, Json(kept(tool))).into_response(), &version)
}
