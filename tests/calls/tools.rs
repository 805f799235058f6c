//! Tools in whole calls: what the model asks for goes through the policy, out to a real web service, and
//! back; and nothing of it reaches a log.

mod authority;
mod confirmation;
mod digits;
mod handoff;
mod over_http;
mod questions;

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        service::Service,
        vendor::{Order, Vendor},
    },
    ms, openai,
};
use serde_json::{Value, json};
use std::time::Duration;

const NAME: &str = "Ada Lovelace";
const NUMBER: &str = "15550123";
const TENANT_TOKEN: &str = "a-bearer-token-of-the-test";

/// An installation with a model, a web service, and tools that call it.
struct Scene {
    server: Vendor,
    service: Service,
    asterisk: Asterisk,
    offhook: Offhook,
}

/// What a test wants of its installation. `HOST` in tools is the web service.
#[derive(Default)]
struct Setting<'a> {
    /// Declarative tools: names and definitions.
    tools: &'a [(&'a str, &'a str)],
    /// Of the context `front`, by name.
    offered: &'a str,
    /// More of the configuration: sections, entries of `providers` and of `contexts`, a tenant's keys.
    sections: &'a str,
    providers: &'a str,
    contexts: &'a str,
    tenant: &'a str,
    dialplan: &'a str,
}

/// The model puts its questions itself: what it says is at hand in these tests. `tools/questions.rs` has the engine's.
const AGENT_ASKS: &str = "policy: { confirm: { asked_by: agent } }";

/// Of a tenant whose tools may approve of themselves.
const TRUSTED: &str = ", trusted: true";

/// Length of the model's answers.
const ANSWER: Duration = ms(300);

impl Scene {
    async fn start(setting: Setting<'_>) -> Self {
        let Setting { tools, offered, sections, providers, contexts, tenant, dialplan } = setting;
        let (server, service) = (openai(ANSWER).await, Service::start().await);
        let asterisk = Asterisk::start(Options { dialplan: dialplan.into(), ..Options::default() }).await;
        let place = Place::free();
        let yaml = format!(
            "{}default_context: front\nproviders:\n  ai: {}\n{providers}tenants:\n  acme: {{ tools: tools, allowed_hosts: [\"{}\"], tokens: [{TENANT_TOKEN}] \
             {tenant} }}\n{sections}\ncontexts:\n  front: {{ prompt: You are a test., provider: ai, tools: [{offered}], {AGENT_ASKS} }}\n\
             {contexts}",
            place.yaml(Some(&asterisk)),
            server.yaml(),
            service.host(),
        );
        let files = definitions(tools, &service);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let launch = Launch { log_format: "json", files: &files, ..Launch::default() };
        let offhook = Offhook::launch(place, &yaml, launch).await;
        offhook.wait_ready(true).await;
        Self { server, service, asterisk, offhook }
    }

    /// A caller who was greeted.
    async fn call(&self, extension: &str) -> Phone {
        let before = self.server.answered();
        let says = silence(ms(60_000));
        let phone = Phone::call_as(self.asterisk.sip_port(), extension, says, NAME, NUMBER).await;
        self.server.has_answered(before + 1).await;
        phone.wait_to_hear(AGENT_HZ, ms(200), SOON).await;
        phone
    }

    /// The model calls a tool, gets its output, and speaks.
    async fn tool(&self, name: &str, arguments: Value) -> Value {
        self.server.uses(name, &arguments).await
    }

    /// The caller says something to the model of the newest call, which understands it.
    fn caller_says(&self, words: &'static str) {
        self.server.order(self.server.sessions(), Order::CallerSays(words));
    }

    /// The audit lines so far.
    fn audits(&self) -> Vec<Value> {
        let lines = self.lines("offhook::audit");
        lines.iter().map(|line| serde_json::from_str(line["audit"].as_str().expect("text")).expect("JSON")).collect()
    }

    /// The lines of the log with this target.
    fn lines(&self, target: &str) -> Vec<Value> {
        let log = self.offhook.log();
        offhook_kit::json_lines(&log).into_iter().filter(|line| line["target"] == target).collect()
    }

    /// None of these is in the log or on a page.
    async fn is_private(&self, secrets: &[&str]) {
        let mut told = self.offhook.log();
        for page in ["", "calls", "metrics"] {
            told += &self.offhook.page(page).await.1;
        }
        for secret in secrets.iter().chain(&[NAME, NUMBER, TENANT_TOKEN, "key-of-the-test"]) {
            let line = told.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret:?} was told");
        }
    }

    async fn ends(&self, mut phone: Phone) {
        phone.hang_up().await;
        assert_eq!(self.offhook.wait_end_reason(SOON).await, "caller_hung_up");
        self.asterisk.wait_empty(SOON).await;
        self.server.is_content();
    }
}

fn definitions(tools: &[(&str, &str)], service: &Service) -> Vec<(String, String)> {
    let file = |(name, text): &(&str, &str)| (format!("tools/{name}.yaml"), text.replace("HOST", &service.host()));
    tools.iter().map(file).collect()
}

fn kind(output: &Value) -> &str {
    output["error"]["type"].as_str().unwrap_or("OK")
}

const TRACK_PARCEL: &str = r#"
name: track_parcel
description: Finds a parcel by its number.
parameters:
  - { name: parcel, type: string, required: true }
actions:
  - type: api_call
    url: "http://HOST/parcels/{{params.parcel}}"
    method: GET
    headers: { Authorization: "Bearer {{user.auth_token}}" }
on_success: [{ type: respond, message: "The parcel is {{result.body.state}}." }]
policy: { access: public_read, risk_domain: customer_support }
"#;

const USERS_TOKEN: &str = "planted-secret-of-the-user";
const CALLERS_WORDS: &str = "my purple elephant has not come";
const PARCEL: &str = "PX-88412-QZ";

/// P18, P26, P31, D17, D18, D answer 25: a tool's way out and back, told in one audit line and one line of the journal.
async fn a_tool_reaches_its_service_and_the_agent_gets_the_answer() {
    let dialplan = format!(
        "[lab-callers](+)\nexten => known,1,Set(AI_USER={{\"id\":\"u-7\",\"auth_token\":\"{USERS_TOKEN}\"}})\n \
         same => n,Stasis(offhook)\n same => n,Hangup()\n"
    );
    let tools = [("track_parcel", TRACK_PARCEL)];
    let setting = Setting {
        tools: &tools,
        offered: "hangup_call, track_parcel",
        tenant: TRUSTED,
        dialplan: &dialplan,
        ..Setting::default()
    };
    let scene = Scene::start(setting).await;
    scene.service.answers(200, json!({ "state": "on a heavy lorry", "token": USERS_TOKEN }));
    let phone = scene.call("known").await;
    let session = &scene.server.told(1)[0]["session"];
    let shown = session["tools"].as_array().expect("tools").iter().find(|tool| tool["name"] == "track_parcel");
    assert_eq!(shown.expect("it is offered")["parameters"]["required"], json!(["parcel"]));

    scene.caller_says(CALLERS_WORDS);
    let output = scene.tool("track_parcel", json!({ "parcel": PARCEL, "colour": "vermilion" })).await;
    assert_eq!((&output["ok"], &output["message"]), (&json!(true), &json!("The parcel is on a heavy lorry.")));
    assert_eq!(output["data"]["state"], "on a heavy lorry");
    assert!(!output.to_string().contains(USERS_TOKEN), "an echo of the secret is masked: {output}");
    let requests = scene.service.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((&*requests[0].method, requests[0].path.clone()), ("GET", format!("/parcels/{PARCEL}")));
    assert_eq!(requests[0].authorization, format!("Bearer {USERS_TOKEN}"));
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    scene.ends(phone).await;

    let [audit] = &scene.audits()[..] else { panic!("one line: {:?}", scene.audits()) };
    assert_eq!((&audit["toolId"], &audit["ok"]), (&json!("track_parcel"), &json!(true)));
    let call = &scene.offhook.json("calls").await["recent"][0]["id"];
    let line = &scene.lines("offhook::audit")[0];
    assert_eq!(&line["span"]["call_id"], call, "{line}");
    assert_eq!((&audit["route"], &audit["executor"]), (&json!("accept"), &json!("declarative")));
    assert_eq!((&audit["argument_keys"], &audit["droppedArguments"]), (&json!(["parcel"]), &json!(["colour"])));
    let [journal] = &scene.lines("journal")[..] else { panic!("one line: {:?}", scene.lines("journal")) };
    assert_eq!((&journal["tool"], &journal["method"]), (&json!("track_parcel"), &json!("GET")));
    assert_eq!(
        (&journal["host"], &journal["status"], &journal["attempts"]),
        (&json!("127.0.0.1"), &json!(200), &json!(1))
    );
    let counted = "offhook_tool_calls_total{outcome=\"done\",tool=\"track_parcel\"}";
    scene.offhook.metric_is(counted, 1.0).await;
    scene.is_private(&[USERS_TOKEN, CALLERS_WORDS, "elephant", PARCEL, "heavy lorry", "vermilion"]).await;
}

/// P12, D answer 4: what goes wrong is told to the model in words it can use, and the call goes on.
async fn a_service_that_fails_is_an_answer_too() {
    let tools = [("track_parcel", TRACK_PARCEL)];
    let scene =
        Scene::start(Setting { tools: &tools, offered: "track_parcel", tenant: TRUSTED, ..Setting::default() }).await;
    let phone = scene.call("7000").await;
    scene.caller_says(CALLERS_WORDS);
    // There is no user here, so there is nothing to log in with.
    let output = scene.tool("track_parcel", json!({ "parcel": PARCEL })).await;
    assert_eq!((kind(&output), &output["error"]["details"]["reason"]), ("PERMANENT", &json!("unresolved_template")));
    assert_eq!(scene.tool("track_parcel", json!({})).await["error"]["type"], "VALIDATION");
    assert_eq!(scene.tool("look_down", json!({})).await["error"]["type"], "NOT_FOUND");
    assert!(scene.service.requests().is_empty());
    phone.wait_to_hear(AGENT_HZ, ms(800), SOON).await;
    scene.ends(phone).await;
    scene.is_private(&[CALLERS_WORDS, PARCEL, "look_down"]).await;
}

crate::scenes! {
    both:
        a_tool_reaches_its_service_and_the_agent_gets_the_answer,
        a_service_that_fails_is_an_answer_too;
}
