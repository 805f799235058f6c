//! ADR-003 as tests: the numbered lines of the requirement (D1–D18) and the answers to what it leaves
//! open.

mod conditions;
mod documents;
mod endings;
mod properties;
mod reading;
mod requests;
mod running;
mod secrets;
mod templates;
mod transforms;

use super::{
    CallView, Definition, DefinitionProblem, Endpoint, Method, Note, Report, RunInput, Services, Surroundings,
};
use crate::tool::{
    Change, Done, Failure, Fetch, FetchError, FetchRequest, FetchResponse, Memory, ToolError, ToolOutcome,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

const BEGIN: i64 = 1_750_000_000;

/// A tenant, a call in it, and services that answer as told.
struct World {
    surroundings: Surroundings,
    memory: Memory,
    service: Service,
    time_left: Duration,
    live: bool,
}

/// Answers requests from a list, `200 {}` after its end, and keeps what it was asked.
#[derive(Default)]
struct Service {
    answers: Mutex<VecDeque<Result<FetchResponse, FetchError>>>,
    asked: Mutex<Vec<FetchRequest>>,
    /// What each answer takes, and the clock it moves.
    takes: Duration,
    clock: Arc<AtomicI64>,
}

struct Ran {
    report: Report,
    asked: Vec<FetchRequest>,
    /// The call's memory after the changes of the outcome were made.
    memory: Memory,
    spoken_at_once: Vec<String>,
}

impl Fetch for Service {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, FetchError>> {
        self.asked.lock().unwrap().push(request);
        self.clock.fetch_add(self.takes.as_millis() as i64, Ordering::Relaxed);
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(|| answer(200, json!({})));
        std::future::ready(answer).boxed()
    }
}

fn answer(status: u16, body: Value) -> Result<FetchResponse, FetchError> {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Ok(FetchResponse { status, headers, body, attempts: 1 })
}

fn refusal(kind: ToolError, status: Option<u16>, attempts: u32) -> Result<FetchResponse, FetchError> {
    Err(FetchError { kind, message: "The service did not answer.".into(), status, attempts })
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

impl World {
    fn new() -> Self {
        let endpoint = |url: &str, method| Endpoint { url: url.into(), method };
        let surroundings = Surroundings {
            endpoints: [
                ("meal.log".to_owned(), endpoint("https://api.example/users/{user_id}/meals", Some(Method::Put))),
                ("plain".to_owned(), endpoint("https://api.example/plain", None)),
            ]
            .into(),
            contexts: ["meal".to_owned(), "sales".to_owned()].into(),
            messages: [(
                "bye".to_owned(),
                [("de".to_owned(), "Tschüss, {{user.name}}!".to_owned()), ("en".to_owned(), "Goodbye!".to_owned())]
                    .into(),
            )]
            .into(),
            language: "en".into(),
            shared_context: vec!["logged_meals".into()],
            ..Surroundings::default()
        };
        let memory = Memory {
            user: map(json!({ "id": "u-1", "name": "Ann", "auth_token": "tok-12345", "tags": ["a", "b"] })),
            workflow: map(json!({ "count": 2, "title": "Lunch \"menu\"" })),
            tenant: map(json!({ "settings": { "brand": "Acme" } })),
            agents: map(json!({ "meal": { "last_dish": "soup" }, "sales": { "lead": 1 } })),
            ..Memory::default()
        };
        let service = Service::default();
        Self { surroundings, memory, service, time_left: Duration::from_secs(60), live: true }
    }

    fn answering(self, answers: impl IntoIterator<Item = Result<FetchResponse, FetchError>>) -> Self {
        self.service.answers.lock().unwrap().extend(answers);
        self
    }

    fn read(&self, definition: &Value) -> Result<Definition, Vec<DefinitionProblem>> {
        Definition::read(definition, &Arc::new(self.surroundings.clone()))
    }

    /// Of a tenant whose tools may approve of themselves.
    fn trusted(mut self) -> Self {
        self.surroundings.trusted = true;
        self
    }

    fn define(&self, definition: &Value) -> Definition {
        self.read(definition).unwrap_or_else(|problems| panic!("{definition:#}\n{problems:#?}"))
    }

    /// Runs a tool of these actions, with a parameter of its type for each argument; null: not given.
    fn act(&self, actions: Value, mut arguments: Value) -> Ran {
        let definition = tool(actions, &arguments);
        arguments.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.run(&definition, arguments)
    }

    fn run(&self, definition: &Value, arguments: Value) -> Ran {
        let definition = self.define(definition);
        let spoken = Mutex::new(Vec::new());
        let speak = |words: &str| spoken.lock().unwrap().push(words.to_owned());
        let now = || {
            let passed = SignedDuration::from_millis(self.service.clock.load(Ordering::Relaxed));
            Timestamp::from_second(BEGIN).unwrap() + passed
        };
        let fetch: Option<&dyn Fetch> = if self.live { Some(&self.service) } else { None };
        let services = Services { fetch, now: &now, on_immediate: &speak };
        let input = RunInput {
            arguments: map(arguments),
            memory: Arc::new(self.memory.clone()),
            call: CallView {
                id: "call-1".into(),
                caller_number: Some("+15550100".into()),
                caller_name: None,
                context_name: "meal".into(),
                direction: "inbound".into(),
            },
            idempotency_key: "key".into(),
            time_left: self.time_left,
        };
        let report = definition.dry_run(input, services).now_or_never().expect("everything answers at once");
        let mut memory = self.memory.clone();
        assert_eq!(memory.apply(changes(&report.outcome)), [], "every change of an outcome can be made");
        let asked = std::mem::take(&mut *self.service.asked.lock().unwrap());
        Ran { report, asked, memory, spoken_at_once: spoken.into_inner().unwrap() }
    }

    /// What is wrong with a tool of these actions, as `path: message (hint)`.
    fn problems(&self, actions: Value) -> Vec<String> {
        self.problems_of(&tool(actions, &json!({ "x": 1, "list": [] })))
    }

    fn problems_of(&self, definition: &Value) -> Vec<String> {
        let problems = self.read(definition).err().unwrap_or_default();
        let hint = |problem: &DefinitionProblem| problem.hint.as_ref().map(|hint| format!(" ({hint})"));
        let line = |problem: &DefinitionProblem| {
            format!("{}: {}{}", problem.path, problem.message, hint(problem).unwrap_or_default())
        };
        problems.iter().map(line).collect()
    }
}

fn changes(outcome: &ToolOutcome) -> &[Change] {
    match outcome {
        ToolOutcome::Done(done) => &done.changes,
        ToolOutcome::Failed(failure) => &failure.changes,
        ToolOutcome::Collect(_) => &[],
    }
}

impl Ran {
    #[track_caller]
    fn done(&self) -> &Done {
        match &self.report.outcome {
            ToolOutcome::Done(done) => done,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn failure(&self) -> &Failure {
        match &self.report.outcome {
            ToolOutcome::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    /// Type and reason of a failure.
    #[track_caller]
    fn why(&self) -> (ToolError, &str) {
        let failure = self.failure();
        (failure.kind, failure.details["reason"].as_str().unwrap_or_default())
    }

    #[track_caller]
    fn message(&self) -> &str {
        self.done().message.as_deref().unwrap_or_default()
    }

    fn workflow(&self, name: &str) -> &Value {
        self.memory.workflow.get(name).unwrap_or(&Value::Null)
    }

    fn missing(&self) -> Vec<&str> {
        let notes = self.report.notes.iter();
        notes.filter_map(|note| if let Note::Missing { path } = note { Some(path.as_str()) } else { None }).collect()
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) | Value::Null => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn tool(actions: Value, arguments: &Value) -> Value {
    let parameter = |(name, value): (&String, &Value)| json!({ "name": name, "type": kind(value) });
    let parameters: Vec<Value> = arguments.as_object().unwrap().iter().map(parameter).collect();
    json!({ "name": "a_tool", "description": "Does things.", "parameters": parameters, "actions": actions })
}

/// The tool of the ADR itself (D8, D17).
fn save_meal() -> Value {
    json!({
        "name": "save_meal",
        "description": "Logs a meal.",
        "parameters": [
            { "name": "meal_type", "type": "string", "enum": ["breakfast", "lunch", "dinner"] },
            { "name": "dishes", "type": "array", "required": true }
        ],
        "actions": [
            { "type": "validate", "rules": [{ "param": "dishes", "min_length": 1, "message": "Which dishes were it?" }] },
            { "type": "context.set", "data": { "logged_meals[+]": "{{params}}" } },
            {
                "type": "api_call",
                "url": "https://api.example/meals",
                "method": "POST",
                "body": { "user_id": "{{user.id}}", "meal": "{{params}}" },
                "headers": { "Content-Type": "application/json", "Authorization": "Bearer {{user.auth_token}}" },
                "timeout": 15,
                "retry_count": 3,
                "retry_delay": 0.5,
                "on_error": "fail",
                "response_path": "workflow.api_response"
            }
        ],
        "on_success": [{ "type": "respond", "message": "I've logged your {{params.meal_type}}!" }],
        "on_failure": [{ "type": "respond", "message": "Sorry, I couldn't log that meal." }]
    })
}
