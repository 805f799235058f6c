//! Actions that a client runs: what it is sent, and what a model is told of its answers.

use super::*;
use crate::{
    config::Residency,
    facts::{CallFacts, CallId},
    gate::Category,
    tool::{
        Admission, Approved, CallPolicy, Done, Failure, Opening, PolicyRules, Tool, ToolCall, ToolCallId, ToolError,
        ToolOutcome, ToolSpec, Toolbox,
    },
    vam::{
        Actioning, Actions, Agreed, Cue,
        actions::{Action, Known, Runner},
        wire::{ActionRequestEnvelope, ActionResultEnvelope, ActionStatus, McpContent, McpToolResult, from_struct},
    },
};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use std::time::Duration;
use tokio::{
    sync::mpsc,
    time::{Instant, advance},
};
use uuid::Uuid;

/// A tool as its server would run it; here a client does.
struct Remote(ToolSpec);

impl Tool for Remote {
    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        panic!("the client runs it")
    }
}

/// A call of a client that executes actions.
struct Call {
    toolbox: Arc<Toolbox>,
    policy: CallPolicy,
    facts: CallFacts,
    actions: Arc<Actions>,
    cues: mpsc::Receiver<Cue>,
    session_id: String,
    _known: Known,
}

impl Call {
    /// `local`: where the tool's server is; `None`: it has gone.
    fn new(local: Option<bool>, access: Category) -> Self {
        let gateway = Gateway::new("");
        if let Some(local) = local {
            gateway.servers.know("market", local);
        }
        let actions = Arc::new(Actions::new(VamCounters::new(&Registry::new())));
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
        let spec =
            ToolSpec { access, timeout: Duration::from_secs(5), ..ToolSpec::new("price", "A price.", parameters) };
        let actioning = Actioning { servers: Arc::new(gateway.servers), actions: Arc::clone(&actions) };
        let guest =
            crate::mcp::Guest { server: "vam_market".into(), name: "Price".into(), tool: Arc::new(Remote(spec)) };
        let tool: Arc<dyn Tool> = Arc::new(crate::vam::ActionTool::new(guest, &actioning));
        let toolbox = Arc::new(Toolbox::new([tool]).unwrap());
        let opening = Opening { session: "s".into(), ..Opening::default() };
        let began = (Instant::now().into_std(), Timestamp::now());
        let policy = CallPolicy::new(Arc::clone(&toolbox), Arc::<PolicyRules>::default(), opening, began);
        let facts = CallFacts::new(CallId::random(), "front", "main");
        let (sender, cues) = mpsc::channel(16);
        let agreed = Agreed::of_tests(Residency::IndiaOnly);
        let known = actions.know(facts.id, &agreed, sender);
        let session_id = agreed.session_id;
        Self { toolbox, policy, facts, actions, cues, session_id, _known: known }
    }

    fn admit(&mut self, arguments: &str) -> Admission {
        let call = ToolCall { id: Uuid::new_v4().to_string(), name: "price".into(), arguments: arguments.into() };
        self.policy.admit(ToolCallId::random(), &call, Instant::now().into_std())
    }

    /// The same call again would be answered from memory: each has its own `n`.
    fn run(&mut self, n: f64) -> tokio::task::JoinHandle<ToolOutcome> {
        match self.admit(&json!({ "n": n }).to_string()) {
            Admission::Run { call, .. } => tokio::spawn(self.toolbox.tool(&call).unwrap().run(*call, &self.facts)),
            other => panic!("it is not admitted: {other:?}"),
        }
    }

    async fn sent(&mut self) -> ActionRequestEnvelope {
        match self.cues.recv().await {
            Some(Cue::Action { envelope, .. }) => *envelope,
            other => panic!("{other:?}"),
        }
    }

    /// What a model is told when the client answers so.
    async fn told(&mut self, n: f64, status: ActionStatus, result: Option<McpToolResult>, error: &str) -> ToolOutcome {
        let running = self.run(n);
        let asked = self.sent().await;
        let answer = ActionResultEnvelope {
            session_id: self.session_id.clone(),
            call_id: asked.call_id,
            status: status.into(),
            result,
            error_message: error.into(),
            ..Default::default()
        };
        self.actions.answered(&self.session_id.clone(), answer);
        running.await.unwrap()
    }
}

fn call() -> Call {
    Call::new(Some(true), Category::PublicRead)
}

fn texts(texts: &[&str], is_error: bool) -> Option<McpToolResult> {
    let part = |text: &&str| McpContent { r#type: "text".into(), text: (*text).to_owned(), ..Default::default() };
    Some(McpToolResult { is_error, content: texts.iter().map(part).collect() })
}

fn failure(outcome: ToolOutcome) -> Failure {
    match outcome {
        ToolOutcome::Failed(failure) => failure,
        other => panic!("it did not fail: {other:?}"),
    }
}

fn done(outcome: ToolOutcome) -> Done {
    match outcome {
        ToolOutcome::Done(done) => done,
        other => panic!("it did not work: {other:?}"),
    }
}

/// V25, V answers 2 and 12: from the complete tool call, through the gate, to the envelope it takes less than 50 ms; the envelope
/// says how long the answer may take, 5 s where nobody says otherwise.
#[tokio::test(start_paused = true)]
async fn an_envelope_leaves_within_fifty_milliseconds() {
    let mut call = call();
    for n in 0..2 {
        let began = Instant::now();
        let _running = call.run(f64::from(n));
        let envelope = call.sent().await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(50), "{took:?}");
        assert_eq!(envelope.timeout_ms, 5_000);
        assert!(envelope.dispatched_at.is_some() && !envelope.fire_and_forget);
    }
}

/// V answer 12: a call that the gate stops produces no envelope. V answer 13: nor does one whose arguments cannot be read.
#[tokio::test]
async fn what_the_gate_stops_is_not_sent() {
    let mut unclassified = Call::new(Some(true), Category::Unknown);
    assert!(!matches!(unclassified.admit("{}"), Admission::Run { .. }));
    let mut call = call();
    for unreadable in ["{", "[]", "{ \"n\": \"two\" }"] {
        assert!(!matches!(call.admit(unreadable), Admission::Run { .. }), "{unreadable}");
    }
    assert!(call.cues.try_recv().is_err() && unclassified.cues.try_recv().is_err());
}

/// V3, V4, V answer 17: a call of the model is wrapped with its name and its arguments; whole numbers have no fraction.
#[tokio::test]
async fn an_envelope_has_the_call_as_the_model_made_it() {
    let mut call = call();
    let _running = call.run(12.0);
    let asked = call.sent().await.tool_call.unwrap();
    assert_eq!(asked.tool_name, "Price", "as its server calls it");
    assert_eq!(serde_json::to_string(&from_struct(asked.arguments.unwrap())).unwrap(), r#"{"n":12}"#);
}

/// V24, V answer 10: the first text is what the model gets, as JSON where it is; a failure is told as one, and nothing is never told
/// as nothing.
#[tokio::test]
async fn each_answer_is_told_to_the_model() {
    let mut call = call();
    let success = ActionStatus::Success;
    let price = done(call.told(1.0, success, texts(&[r#"{"price": 2310}"#], false), "").await);
    assert_eq!(price.data, json!({ "price": 2310 }));
    let words = done(call.told(2.0, success, texts(&["It rains."], false), "").await);
    assert_eq!(words.data["text"], "It rains.");
    let failed = failure(call.told(3.0, success, texts(&["No such crop."], true), "").await);
    assert_eq!((failed.kind, failed.message.as_str()), (ToolError::Permanent, "No such crop."));
}

/// V24, V answer 10: the text of the first part is what the model gets, alone; where that is no text, the first that is; where none
/// is, the parts as JSON.
#[tokio::test]
async fn the_first_text_is_the_tools_message() {
    let text = |text: &str| McpContent { r#type: "text".into(), text: text.into(), ..Default::default() };
    let image = || McpContent {
        r#type: "image".into(),
        text: "not of an image".into(),
        data: "AAAA".into(),
        mime_type: "image/png".into(),
        ..Default::default()
    };
    let mut call = call();
    let mut told = async |n: f64, content: Vec<McpContent>| {
        let result = Some(McpToolResult { is_error: false, content });
        done(call.told(n, ActionStatus::Success, result, "").await).data
    };
    assert_eq!(told(1.0, vec![text("It rains."), text("It snows.")]).await, json!({ "text": "It rains." }));
    assert_eq!(told(2.0, vec![image(), text("{\"price\": 7}"), text("more")]).await, json!({ "price": 7 }));
    let parts = json!({ "content": [{ "type": "image", "mimeType": "image/png", "bytes": 3 }] });
    assert_eq!(told(3.0, vec![image()]).await, parts);
}

/// V answer 10: the rest of the answers, in a turn of their own.
#[tokio::test]
async fn refusals_and_empty_answers_are_told_to_the_model() {
    // Three calls are the budget of one turn.
    let mut another = call();
    let failed = failure(another.told(1.0, ActionStatus::Error, None, "its server\nis down").await);
    assert_eq!((failed.kind, failed.message.as_str()), (ToolError::Permanent, "The action failed. its server is down"));
    let mut call = call();
    let unknown = failure(call.told(1.0, ActionStatus::Unsupported, None, "").await);
    assert_eq!(unknown.kind, ToolError::NotFound);
    let denied = failure(call.told(2.0, ActionStatus::PolicyDeny, None, "").await);
    assert_eq!(denied.kind, ToolError::Refused);
    let nothing = done(call.told(3.0, ActionStatus::Success, None, "").await);
    assert!(nothing.message.is_some_and(|message| !message.is_empty()), "something is told");
}

/// V23, V answers 9 and 14: several actions run at once, each gets its own answer, whatever their order; what settles nothing is
/// counted.
#[tokio::test]
async fn answers_find_their_calls() {
    let mut call = call();
    let (one, two) = (call.run(1.0), call.run(2.0));
    let (first, second) = (call.sent().await, call.sent().await);
    assert_ne!(first.call_id, second.call_id);
    let session_id = call.session_id.clone();
    let answer = |asked: &ActionRequestEnvelope, status: ActionStatus, text: &str| ActionResultEnvelope {
        session_id: asked.session_id.clone(),
        call_id: asked.call_id.clone(),
        status: status.into(),
        result: texts(&[text], false),
        ..Default::default()
    };
    call.actions.answered(&session_id, answer(&second, ActionStatus::Pending, "not yet"));
    call.actions.answered(&session_id, answer(&second, ActionStatus::Success, "two"));
    call.actions.answered(&session_id, answer(&second, ActionStatus::Success, "again"));
    call.actions.answered("another session", answer(&first, ActionStatus::Success, "stolen"));
    call.actions.answered(&session_id, answer(&first, ActionStatus::Success, "one"));
    assert_eq!(done(one.await.unwrap()).data["text"], "one");
    assert_eq!(done(two.await.unwrap()).data["text"], "two");
    assert_eq!(call.actions.dropped(), 2);
}

/// V11, V answer 11: after its time the model is told so explicitly, and the stream an error, once.
#[tokio::test(start_paused = true)]
async fn an_action_that_is_not_answered_has_timed_out() {
    let mut call = call();
    let running = call.run(1.0);
    call.sent().await;
    let failure = failure(running.await.unwrap());
    assert_eq!(failure.kind, ToolError::Timeout);
    assert!(failure.message.contains("timed out"));
    let told: Vec<Cue> = std::iter::from_fn(|| call.cues.try_recv().ok()).collect();
    assert!(matches!(told[..], [Cue::ActionTimedOut]), "{told:?}");
}

/// On a busy machine an action begins later than the call counts, and the call gives it up first.
#[tokio::test(start_paused = true)]
async fn an_action_that_the_call_gives_up_after_its_time_has_timed_out_and_one_of_a_call_that_ends_has_not() {
    let mut call = call();
    let (late, ended) = (call.run(1.0), call.run(2.0));
    advance(Duration::from_millis(4_990)).await;
    for _ in 0..2 {
        call.sent().await;
    }
    ended.abort();
    assert!(ended.await.is_err(), "it was given up");
    advance(Duration::from_millis(60)).await;
    late.abort();
    assert!(late.await.is_err(), "it was given up");
    let told: Vec<Cue> = std::iter::from_fn(|| call.cues.try_recv().ok()).collect();
    assert!(matches!(told[..], [Cue::ActionTimedOut]), "{told:?}");
}

/// V answer 1: whoever runs an action, it is entered in the same table, and has the same time.
#[tokio::test(start_paused = true)]
async fn what_runs_here_is_waited_for_like_what_a_client_runs() {
    let mut call = call();
    let approved = |call: &mut Call, n: u32| match call.admit(&json!({ "n": n }).to_string()) {
        Admission::Run { call, .. } => *call,
        other => panic!("it is not admitted: {other:?}"),
    };
    let here = |run: BoxFuture<'static, ToolOutcome>| Action { client: None, by: Runner::Engine(Box::new(|| run)) };
    let first = approved(&mut call, 1);
    let answers: BoxFuture<'static, ToolOutcome> = Box::pin(async { ToolOutcome::Done(Done::default()) });
    assert_eq!(done(Arc::clone(&call.actions).act(here(answers), first).await), Done::default());
    let (second, began) = (approved(&mut call, 2), Instant::now());
    let failure = failure(Arc::clone(&call.actions).act(here(Box::pin(std::future::pending())), second).await);
    assert_eq!((failure.kind, began.elapsed()), (ToolError::Timeout, Duration::from_secs(5)));
    assert_eq!(call.actions.under_way(), 0);
}

/// Where as many are under way as there may be, nothing of the next one is begun: its server is not asked.
#[tokio::test]
async fn one_action_too_many_is_not_begun() {
    let mut call = call();
    let approved = match call.admit("{}") {
        Admission::Run { call, .. } => *call,
        other => panic!("it is not admitted: {other:?}"),
    };
    call.actions.fill();
    let full = call.actions.under_way();
    let run = || -> BoxFuture<'static, ToolOutcome> { panic!("it is begun") };
    let action = Action { client: None, by: Runner::Engine(Box::new(run)) };
    let failure = failure(Arc::clone(&call.actions).act(action, approved).await);
    assert_eq!((failure.kind, call.actions.too_many()), (ToolError::Transient, 1));
    assert_eq!(call.actions.under_way(), full, "and nobody's place is taken away");
}

/// V20, V answer 16: arguments that name a person are secret beside those that the tool itself has secret.
#[test]
fn private_arguments_are_secret_beside_the_tools_own() {
    let folder = TempDir::new().unwrap();
    let registry = Registry::new();
    let fleet = Arc::new(Fleet::new(Arc::new(McpCounters::new(&registry))).unwrap());
    let counters = VamCounters::new(&registry);
    let servers = ActionServers::open(&config(&folder, ""), fleet, counters.clone()).unwrap();
    let actioning = Actioning { servers: Arc::new(servers), actions: Arc::new(Actions::new(counters)) };
    let properties = json!({ "village": {}, "phone": {}, "pan_number": {}, "crop": {} });
    let parameters = json!({ "type": "object", "properties": properties });
    let own = vec!["village".to_owned(), "phone".to_owned()];
    let spec = ToolSpec { secret_args: own, ..ToolSpec::new("price", "A price.", parameters) };
    let guest = crate::mcp::Guest { server: "vam_market".into(), name: "Price".into(), tool: Arc::new(Remote(spec)) };
    let tool = crate::vam::ActionTool::new(guest, &actioning);
    assert_eq!(tool.spec().secret_args, ["village", "phone", "pan_number"]);
}

/// V18, V19, V answer 3: what may not go to a server goes nowhere, neither to it nor to the client; nor to one that has gone.
#[tokio::test]
async fn a_denied_action_leaves_neither_for_its_server_nor_for_the_client() {
    // The session is of India, and of the server outside nothing is claimed. `Remote` panics when it is asked.
    for (local, kind) in [(Some(false), ToolError::Refused), (None, ToolError::NotFound)] {
        let mut call = Call::new(local, Category::PublicRead);
        let failure = failure(call.run(1.0).await.unwrap());
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert!(call.cues.try_recv().is_err());
    }
}
