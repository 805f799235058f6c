//! Who is dialled, what it is told, and what becomes of it: with providers that are played here.

use super::*;
use crate::{
    audio::Format,
    call::{AgentCommand, AgentTraits, CallMachine, CallPlan, CallRules, Note, Speaker},
    config,
    engine::{
        Engine, Source,
        bill::Bill,
        ears::ears,
        generation::Generation,
        live::{Doors, Entered, Shown},
        outside::Outside,
        post::Post,
        story::Story,
        workshop::Workshop,
    },
    facts::{CallFacts, CallId, Party, Residency},
    provider::{self, Agent, AgentSetup, Embedded, Provider},
    records::{Diary, Recorder},
    remote::health::Breaker,
    telemetry::{LogCapture, Metrics, call_span},
    tool::{Opening, schemas::Dialect},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use std::sync::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, advance},
};

const YAML: &str = r#"
http: { bind: "127.0.0.1:0" }
media: { audiosocket: { bind: "127.0.0.1:0" } }
providers:
  one: { scripted: { script: [silence] } }
  two: { scripted: { script: [silence] } }
contexts:
  front: { prompt: You are a test., provider: one, fallbacks: [two] }
"#;

/// How the far end takes a session.
type Manner = fn(&AgentSetup) -> Option<AgentLoss>;

const STANDS: Manner = |_| None;
const CLOSES: Manner = |_| Some(AgentLoss::Closed);
const REFUSES_HANDLES: Manner = |setup| setup.resume.as_ref().map(|_| AgentLoss::Protocol);

/// A provider that is played here; it remembers what its sessions were begun with.
#[derive(Clone)]
struct Played {
    manner: Manner,
    setups: Arc<Mutex<Vec<AgentSetup>>>,
}

impl Played {
    fn new(manner: Manner) -> Self {
        Self { manner, setups: Arc::default() }
    }

    fn last(&self) -> AgentSetup {
        self.setups.lock().unwrap().last().cloned().expect("it was dialled")
    }
}

impl Provider for Played {
    fn kind(&self) -> &'static str {
        "played"
    }

    fn traits(&self) -> AgentTraits {
        AgentTraits::PLAIN
    }

    fn dialect(&self) -> Option<Dialect> {
        None
    }

    fn agent(&self) -> Agent<'_> {
        Agent::Embedded(self)
    }
}

impl Embedded for Played {
    fn play(
        &self,
        setup: AgentSetup,
        _ready_max: Duration,
        mut commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) -> BoxFuture<'static, Option<AgentLoss>> {
        let loss = (self.manner)(&setup);
        self.setups.lock().unwrap().push(setup);
        async move {
            if loss.is_none() {
                let _ = events.send(AgentEvent::Ready).await;
                while commands.recv().await.is_some() {}
            }
            loss
        }
        .boxed()
    }
}

/// An engine with one call in it, whose agent is `one`.
struct Stage {
    engine: Engine,
    generation: Generation,
    one: Played,
    two: Played,
    facts: CallFacts,
    entered: Entered,
    post: Post,
    diary: Option<Diary>,
    recorder: Option<Recorder>,
    bill: Bill,
}

impl Stage {
    async fn new(one: Manner, two: Manner) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = || config::load_str("test.yaml", YAML, &|_| None, provider::catalog()).unwrap();
        let engine = Engine::start(Source::Memory, config(), Metrics::new("test")).await.unwrap();
        let mut generation =
            Generation::build(1, config(), &Workshop::closed()).unwrap_or_else(|errors| panic!("{errors:?}"));
        let (one, two) = (Played::new(one), Played::new(two));
        generation.providers.insert("one".into(), Arc::new(one.clone()));
        generation.providers.insert("two".into(), Arc::new(two.clone()));
        let facts = CallFacts::new(CallId::random(), "front", "one");
        let seat = engine.shared.live.seat(1).unwrap();
        let (orders, words) = (mpsc::channel(1).0, mpsc::channel(1).0);
        let entered = engine.shared.live.enter(
            &facts,
            seat,
            Doors { orders, words, tap: ears(Format::ULAW).1, transfers: None, written: false },
            Shown { words: true, numbers: true },
        );
        Self {
            engine,
            generation,
            one,
            two,
            facts,
            entered,
            post: Post::default(),
            diary: None,
            recorder: None,
            bill: Bill::default(),
        }
    }

    fn task(&mut self) -> CallTask<'_> {
        let context = Arc::clone(&self.generation.config.contexts["front"]);
        let (shared, facts, format) = (&*self.engine.shared, self.facts.clone(), Format::ULAW);
        let order = order("one", &context);
        let clips = self.generation.repertoire("front").at_hand(None);
        let succession = Succession::new(order, "one", None, &clips);
        let casting = Casting::of(&self.generation, "front", "one", false, Residency::Any).unwrap();
        let policy = first_policy(&context, true);
        let briefing = Briefing { story: None, resume: None, opens: succession.opens(), heard: None, policy };
        let plan = CallPlan {
            rules: context.rules.clone(),
            toolbox: Arc::clone(&casting.toolbox),
            policy: Arc::clone(&context.policy.rules),
            opening: Opening::default(),
            wall: jiff::Timestamp::now(),
            agent: AgentTraits::PLAIN,
            format,
            clips: Arc::clone(&clips),
            latencies: Arc::default(),
            written: false,
            beat: shared.beat,
        };
        let began = Instant::now();
        CallTask {
            machine: CallMachine::new(plan, began.into_std()),
            session: casting.dial(shared, &facts, format, briefing, &Span::none()),
            facts,
            toolbox: casting.toolbox,
            succession,
            generation: &self.generation,
            format,
            variables: Default::default(),
            transfers: false,
            outside: Outside::new(mpsc::channel(1).1, mpsc::channel(1).1),
            entered: &self.entered,
            post: &mut self.post,
            diary: &mut self.diary,
            recorder: &mut self.recorder,
            ears: ears(Format::ULAW).0,
            story: Story::default(),
            bill: &mut self.bill,
            shared,
            began,
            agent_heard: false,
        }
    }
}

impl CallTask<'_> {
    /// The successor's next event, as the core is told it.
    async fn hear_next(&mut self) -> Next {
        let event = self.succession.event().await;
        self.note_next(event)
    }

    fn agent_speaks(&mut self) {
        self.agent_heard = true;
        self.succession.greeted();
        let said = Note::Said { speaker: Speaker::Caller, text: "My order is late.".to_owned().into() };
        self.post.note(Duration::ZERO, &said);
    }

    fn loses(&mut self, loss: AgentLoss) -> Next {
        self.note_agent(&AgentEvent::Lost(loss));
        self.dial_next(Dialling::Recovery(loss))
    }
}

#[track_caller]
fn dialled(next: Next) -> (String, bool) {
    match next {
        Next::Dialling(successor) => (successor.provider, successor.resumes),
        other => panic!("nobody was dialled: {other:?}"),
    }
}

#[tokio::test]
async fn before_the_vendors_limit_the_session_goes_on_in_another_one_that_knows_everything() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    let (one, metrics) = (stage.one.clone(), stage.engine.metrics().clone());
    let mut task = stage.task();
    task.agent_speaks();
    for handle in ["old", "new"] {
        task.note_agent(&AgentEvent::Resumable { handle: handle.into() });
    }
    assert_eq!(dialled(task.dial_next(Dialling::Rollover)), ("one".into(), true));
    assert!(matches!(task.hear_next().await, Next::Event(AgentEvent::Ready)));
    let setup = one.last();
    assert_eq!((setup.resume.as_deref(), setup.opens), (Some("new"), Opens::Waits));
    assert_eq!(setup.instructions, "You are a test.");
    task.take_over();
    assert_eq!(task.facts.provider, "one");
    assert!(metrics.text().contains(r#"offhook_session_rollovers_total{outcome="took_over",provider="one"} 1"#));
}

#[tokio::test]
async fn a_vendor_that_refuses_the_handle_is_told_the_story_and_the_core_that_it_has_to_be() {
    let mut stage = Stage::new(REFUSES_HANDLES, STANDS).await;
    let one = stage.one.clone();
    let mut task = stage.task();
    task.agent_speaks();
    task.note_agent(&AgentEvent::Resumable { handle: "old".into() });
    assert_eq!(dialled(task.dial_next(Dialling::Rollover)), ("one".into(), true));
    assert_eq!(dialled(task.hear_next().await), ("one".into(), false));
    assert!(matches!(task.hear_next().await, Next::Event(AgentEvent::Ready)));
    let setup = one.last();
    assert_eq!(setup.resume, None);
    assert!(setup.instructions.contains("> Caller: My order is late."), "{}", setup.instructions);
    assert!(setup.instructions.contains("do not greet"), "{}", setup.instructions);
    assert!(task.succession.failures.is_empty(), "a handle that has grown old is no failure");
}

#[tokio::test]
async fn a_lost_agent_is_replaced_by_its_own_provider_and_then_by_the_next_one() {
    let mut stage = Stage::new(CLOSES, STANDS).await;
    let (two, metrics) = (stage.two.clone(), stage.engine.metrics().clone());
    let mut task = stage.task();
    task.agent_speaks();
    assert_eq!(dialled(task.loses(AgentLoss::Closed)), ("one".into(), false));
    let next = task.hear_next().await;
    let Next::Event(AgentEvent::Lost(loss)) = next else { panic!("{next:?}") };
    assert_eq!(dialled(task.dial_next(Dialling::Recovery(loss))), ("two".into(), false));
    assert!(matches!(task.hear_next().await, Next::Event(AgentEvent::Ready)));
    assert!(two.last().instructions.contains("My order is late."));
    task.take_over();
    assert_eq!(task.facts.provider, "two");
    for (provider, outcome) in [("one", "failed"), ("two", "took_over")] {
        let line = format!(r#"offhook_session_recoveries_total{{outcome="{outcome}",provider="{provider}"}} 1"#);
        assert!(metrics.text().contains(&line), "{line}");
    }
    drop(task);
    assert_eq!(stage.engine.calls().view().active[0].call.provider, "two", "the page shows who speaks");
}

#[tokio::test]
async fn when_all_have_failed_there_is_nobody() {
    let mut stage = Stage::new(STANDS, |_| Some(AgentLoss::Quota)).await;
    let mut task = stage.task();
    assert_eq!(dialled(task.loses(AgentLoss::Unauthorized)), ("two".into(), false));
    assert!(matches!(task.hear_next().await, Next::Event(AgentEvent::Lost(AgentLoss::Quota))));
    assert!(matches!(task.dial_next(Dialling::Recovery(AgentLoss::Quota)), Next::Nobody));
    let health = &task.shared.health;
    assert_eq!([health.breaker("one"), health.breaker("two")], [Breaker::Open; 2]);
}

/// Prompts of later sessions, tools and mail: whose the caller's place is counts, and what the dialplan said of another does not.
#[tokio::test]
async fn who_has_taken_the_caller_s_place_is_the_caller_from_then_on() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    stage.facts.caller_number = Some("15550199".to_owned()).into();
    let one = stage.one.clone();
    let mut task = stage.task();
    task.variables =
        [("PIN".to_owned(), "2468".to_owned())].into_iter().collect::<std::collections::BTreeMap<_, _>>().into();
    task.agent_speaks();
    let filled = |task: &CallTask<'_>| config::prompt::fill("{caller_name}, {caller_number}", &task.facts);
    task.on_note(Note::PartyChanged(Party::default()));
    assert_eq!(filled(&task), "there, unknown");
    assert!(task.variables.reveal().is_empty());
    task.on_note(Note::PartyKnown(Party { name: Default::default(), number: Some("2025550111".to_owned()).into() }));
    assert_eq!(filled(&task), "there, 2025550111");
    task.on_note(Note::Said { speaker: Speaker::Caller, text: "Hello?".to_owned().into() });
    assert_eq!(dialled(task.dial_next(Dialling::Rollover)), ("one".into(), false));
    assert!(matches!(task.hear_next().await, Next::Event(AgentEvent::Ready)));
    let story = one.last().instructions;
    assert!(
        story.contains("> Caller: My order is late.\n> Caller: Hello? [another person speaks from here on]"),
        "{story}"
    );
}

/// The session tells its loss, and the core's watchdog may tell the same.
#[tokio::test]
async fn a_loss_is_entered_once() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    let mut task = stage.task();
    drop(task.loses(AgentLoss::Closed));
    task.part_ended(EndReason::AgentLost(AgentLoss::Closed));
    assert_eq!(task.succession.failures_of("one"), 1);
}

#[tokio::test]
async fn a_successor_that_is_not_wanted_any_more_is_dropped_and_no_failure() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    let metrics = stage.engine.metrics().clone();
    let mut task = stage.task();
    assert_eq!(dialled(task.dial_next(Dialling::Rollover)).0, "one");
    task.hang_up_next();
    assert!(task.succession.event().now_or_never().is_none());
    assert!(task.succession.failures.is_empty());
    assert!(metrics.text().contains(r#"offhook_session_rollovers_total{outcome="dropped",provider="one"} 1"#));
}

/// Not two of its provider, which is asked again.
#[tokio::test]
async fn a_session_that_is_lost_while_the_next_one_is_set_up_is_one_failure() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    let metrics = stage.engine.metrics().clone();
    let mut task = stage.task();
    task.agent_speaks();
    assert_eq!(dialled(task.dial_next(Dialling::Rollover)).0, "one");
    assert_eq!(dialled(task.loses(AgentLoss::Closed)), ("one".into(), false));
    assert_eq!(task.succession.failures_of("one"), 1);
    assert!(metrics.text().contains(r#"offhook_session_rollovers_total{outcome="dropped",provider="one"} 1"#));
}

#[tokio::test]
async fn a_session_that_has_said_its_last_word_is_asked_no_more() {
    let mut stage = Stage::new(|_| Some(AgentLoss::Unauthorized), STANDS).await;
    let mut task = stage.task();
    assert_eq!(task.session.event().await, AgentEvent::Lost(AgentLoss::Unauthorized));
    tokio::task::yield_now().await;
    assert!(task.session.event().now_or_never().is_none());
}

#[tokio::test]
async fn a_new_call_begins_with_the_first_provider_that_does_not_fail_or_with_the_one_it_asked_for() {
    let stage = Stage::new(STANDS, STANDS).await;
    let shared = &stage.engine.shared;
    let order = order("one", &stage.generation.config.contexts["front"]);
    assert_eq!(first(shared, &order), Some(("one", First::AsAsked)));
    shared.health.failed("one", AgentLoss::Quota);
    assert_eq!(first(shared, &order), Some(("two", First::Instead)));
    shared.health.failed("two", AgentLoss::Quota);
    assert_eq!(first(shared, &order), Some(("one", First::Anyway)));
    for outcome in ["fallback", "tried_anyway"] {
        let line = format!(r#"offhook_provider_passed_over_total{{outcome="{outcome}",provider="one"}} 1"#);
        assert!(stage.engine.metrics().text().contains(&line), "{line}");
    }
}

fn succession() -> Succession {
    Succession::new(["a", "b", "c"].map(str::to_owned).into(), "a", Some("Hello".into()), &Clips::default())
}

#[tokio::test(start_paused = true)]
async fn the_same_provider_comes_first_then_the_next_of_the_list_and_nobody_for_a_third_time() {
    let mut succession = succession();
    let mut heirs = Vec::new();
    loop {
        let failed = succession.last.clone();
        succession.count(&failed, AgentLoss::Closed);
        let Some(heir) = succession.heir(|_| true) else { break };
        heirs.push(heir.to_owned());
        succession.last = heir.to_owned();
    }
    assert_eq!(heirs, ["a", "b", "b", "c", "c"]);
    advance(Recovery::HEALED_AFTER).await;
    assert_eq!(succession.heir(|_| true), Some("c"), "what failed long ago may have healed");
}

#[test]
fn a_session_that_its_vendor_ends_for_its_length_is_no_failure() {
    let mut succession = succession();
    (0..9).for_each(|_| succession.count("a", AgentLoss::Expired));
    assert_eq!(succession.heir(|_| true), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_came_to_its_end_makes_good_what_was_lost_before_and_one_of_a_lost_session_does_not() {
    let mut stage = Stage::new(STANDS, STANDS).await;
    let mut task = stage.task();
    for _ in 0..5 {
        assert_eq!(dialled(task.loses(AgentLoss::Closed)).0, "one", "the one before was made good");
        task.agent_answered();
        assert_eq!(task.succession.failures_of("one"), 1, "a session that is lost makes nothing good");
        task.hear_next().await;
        task.take_over();
        task.agent_answered();
        assert_eq!(task.succession.failures_of("one"), 0);
        assert_eq!(task.shared.health.breaker("one"), Breaker::Closed);
    }
}

#[test]
fn who_lost_finally_or_whose_breaker_is_open_is_passed_over() {
    let mut succession = succession();
    succession.count("a", AgentLoss::Unauthorized);
    assert_eq!(succession.heir(|_| true), Some("b"));
    assert_eq!(succession.heir(|name| name != "b"), Some("c"));
    assert_eq!(succession.heir(|_| false), None);
}

#[test]
fn after_the_last_of_the_list_come_those_before_it() {
    let mut succession = succession();
    succession.count("a", AgentLoss::Closed);
    for (last, heir) in [("b", "c"), ("c", "a")] {
        succession.last = last.into();
        succession.count(last, AgentLoss::Quota);
        assert_eq!(succession.heir(|_| true), Some(heir));
    }
}

#[test]
fn only_a_caller_who_was_not_greeted_is_greeted_by_the_next_agent() {
    let mut succession = succession();
    assert_eq!(succession.opens(), Opens::Greets(Some("Hello".into())));
    succession.greeted();
    assert_eq!(succession.opens(), Opens::Waits);
}

/// Nobody waits for one session as long as for all of them.
#[test]
fn all_attempts_of_a_recovery_fit_into_its_time_and_a_first_dial_leaves_time_for_a_fallback() {
    let yaml = "providers: { a: { scripted: { script: [silence] } } }\ncontexts: { c: { prompt: A, provider: a } }\n";
    let config = crate::config::load_str("test.yaml", yaml, &|_| None, crate::provider::catalog()).unwrap();
    let context = &config.contexts["c"];
    let (rules, lost) = (&context.rules, Dialling::Recovery(AgentLoss::Closed));
    let one = policy(lost, context, true, Duration::ZERO);
    assert!(one.setup_max * rules.recovery.attempts <= rules.recovery.within, "{one:?}");
    assert_eq!((one.attempts, one.connect_max), (1, STEP_MAX), "the next provider is the next attempt");
    assert!(policy(lost, context, false, Duration::ZERO).attempts > 1, "there is nobody else");
    assert!(policy(lost, context, true, Duration::from_secs(3)).handshake_max > Duration::from_secs(4), "it is slow");
    assert!(policy(lost, context, true, Duration::from_secs(30)).handshake_max <= one.setup_max);
    let patient = Context {
        rules: CallRules { agent_ready_max: Duration::from_secs(20), ..rules.clone() },
        ..Context::clone(context)
    };
    assert!(first_policy(&patient, false).handshake_max > Duration::from_secs(17), "what was asked for is waited for");
    assert!(first_policy(context, true).setup_max * 2 <= rules.agent_ready_max);
    assert!(first_policy(context, false).setup_max < rules.agent_ready_max);
}

#[test]
fn a_caller_whom_a_clip_greets_is_greeted_by_no_agent() {
    let clip = crate::audio::Clip::built_in(crate::audio::BuiltIn::Moment);
    let greeting = Some(crate::call::Spoken { text: "Hello".into(), clip });
    let clips = Clips { greeting, ..Clips::default() };
    let succession = Succession::new(vec!["a".into()], "a", Some("Hello".into()), &clips);
    assert_eq!(succession.opens(), Opens::Waits);
    assert!(succession.heard().is_some_and(|heard| heard.contains("\"Hello\"")));
}

/// As the page of calls does.
#[tokio::test]
async fn the_lines_of_a_call_name_the_provider_that_has_it() {
    let mut stage = Stage::new(CLOSES, STANDS).await;
    let capture = LogCapture::new();
    let _guard = capture.start();
    let mut task = stage.task();
    let span = call_span(&task.facts);
    task.agent_speaks();
    task.loses(AgentLoss::Closed);
    let Next::Event(AgentEvent::Lost(loss)) = task.hear_next().await else { panic!("it closes") };
    task.dial_next(Dialling::Recovery(loss));
    task.hear_next().await;
    span.in_scope(|| {
        info!("before");
        task.take_over();
        info!("afterwards");
    });
    let provider = |what: &str| {
        let line = capture.lines().into_iter().find(|line| line.contains(what)).expect("it is logged");
        line.rsplit_once("provider=\"")
            .and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()))
            .unwrap_or_default()
    };
    assert_eq!((provider("before"), provider("afterwards")), ("one".to_owned(), "two".to_owned()));
}
