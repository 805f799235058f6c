//! Both sides of a call and the clock, in one hand.

mod outputs;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use offhook_core::{
    audio::{Clip, Format, Heard, g711},
    call::{
        AgentEvent, AgentTraits, CallMachine, CallPlan, CallRules, Clips, Ears, Handover, Input, LegEvent, Next,
        Output, ResponseStatus, Speaker, Spoken, Successor, TurnOwner, TurnRules,
    },
    facts::CallFacts,
    gate::{Category, RiskDomain},
    tool::{
        Approved, BUILT_IN, Latencies, Opening, PolicyRules, Tool, ToolCall, ToolKind, ToolOutcome, ToolSpec, Toolbox,
        built_in,
    },
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// What an agent's audio is made of on this stage; silence is 0xff.
pub const VOICE: u8 = 0x11;
/// What the engine's own sentences are made of.
pub const MOMENT: u8 = 0x21;
pub const PATIENCE: u8 = 0x22;
pub const APOLOGY: u8 = 0x23;
pub const MENU: u8 = 0x24;
pub const NOTICE: u8 = 0x25;
pub const GREETING: u8 = 0x26;
pub const LINE: u8 = 0x27;
/// The sentence that is there as a line.
pub const WORDS: &str = "One moment, I am looking it up.";
pub const FRAME: Duration = Duration::from_millis(20);

/// Ears that take this byte of the caller's for speech, and everything else for silence.
pub const SPEECH: u8 = 0x31;

struct Heeding;

impl Ears for Heeding {
    fn hear(&mut self, audio: &[u8], heard: &mut Vec<Heard>) {
        for frame in audio.chunks(160) {
            let (probability, level_dbfs) = if frame.contains(&SPEECH) { (0.95, -20.0) } else { (0.0, -80.0) };
            heard.push(Heard { probability, level_dbfs, floor_dbfs: -80.0, voicing: probability });
        }
    }
}

fn next(context: &str, rules: CallRules, clips: Clips, toolbox: Arc<Toolbox>) -> Handover {
    Handover {
        context: context.into(),
        rules,
        toolbox,
        policy: Arc::default(),
        agent: AGENT,
        clips: Arc::new(clips),
        pin: Some(NEXT_PIN.to_owned().into()),
    }
}

pub struct Stage {
    machine: CallMachine,
    start: Instant,
    now: Instant,
    /// Everything that came out, with the time since the beginning.
    pub seen: Vec<(Duration, Output)>,
    /// Who can be dialled when the agent is lost, one after the other.
    pub understudies: VecDeque<Successor>,
    /// How long tools took in earlier calls.
    pub latencies: Arc<Latencies>,
}

/// A sentence of ours that is 600 ms of this byte.
pub fn spoken(text: &str, byte: u8) -> Spoken {
    let mut samples = Vec::new();
    g711::decode(g711::Law::Mu, &[byte; 4_800], &mut samples);
    Spoken { text: text.into(), clip: Arc::new(Clip::from_samples(8_000, samples).expect("a short clip")) }
}

pub fn clips() -> Clips {
    Clips {
        moment: spoken("One moment, please.", MOMENT),
        patience: spoken("I am still here.", PATIENCE),
        apology: spoken("I am sorry.", APOLOGY),
        lines: [(WORDS.to_owned(), spoken(WORDS, LINE).clip)].into(),
        ..Clips::default()
    }
}

pub fn rules() -> CallRules {
    let turns = TurnRules { owner: TurnOwner::Provider, ..TurnRules::default() };
    CallRules { greeting: Some("Hello".into()), turns, ..CallRules::default() }
}

/// A tool that the test itself runs, by [`Stage::finishes`].
struct Prop(ToolSpec);

impl Tool for Prop {
    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    fn run(&self, _: Approved, _: &CallFacts) -> BoxFuture<'static, ToolOutcome> {
        Box::pin(std::future::pending())
    }
}

/// The built-in tools and these.
pub fn toolbox(specs: impl IntoIterator<Item = ToolSpec>) -> Arc<Toolbox> {
    let destinations = [("sales".to_owned(), "The sales desk".to_owned())].into();
    let built_in = BUILT_IN.iter().filter_map(|name| built_in(name, &destinations));
    let props = specs.into_iter().map(|spec| Arc::new(Prop(spec)) as Arc<dyn Tool>);
    Arc::new(Toolbox::new(built_in.chain(props)).unwrap())
}

fn any_object() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } } })
}

/// A tool that everybody may use.
pub fn look_up() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Retrieval,
        access: Category::PublicRead,
        ..ToolSpec::new("look_up", "Opening hours.", any_object())
    }
}

/// A tool that the caller has to agree to.
pub fn book() -> ToolSpec {
    ToolSpec {
        kind: ToolKind::Action,
        access: Category::Write,
        risk_domain: RiskDomain::CustomerSupport,
        confirm_template: Some("Book a table on {a}?".into()),
        ..ToolSpec::new("book", "Books a table.", any_object())
    }
}

/// A tool of the operator's whose outcome the test makes.
pub fn approved_tool(name: &str) -> ToolSpec {
    ToolSpec::on_the_call(name, "Does something.", any_object())
}

pub const AGENT: AgentTraits =
    AgentTraits { detects_speech: true, cancels_on_speech: true, truncates: true, ..AgentTraits::PLAIN };

/// The caller's PIN in the context that takes over; the first one's is 246813.
pub const NEXT_PIN: &str = "1357";

impl Stage {
    pub fn new(rules: CallRules) -> Self {
        let opening = Opening { caller_known: true, ..Opening::default() };
        Self::cast(rules, [], PolicyRules::default(), opening)
    }

    /// A call with more tools than the built-in ones.
    pub fn cast(
        rules: CallRules,
        tools: impl IntoIterator<Item = ToolSpec>,
        policy: PolicyRules,
        opening: Opening,
    ) -> Self {
        Self::by(AGENT, rules, tools, policy, opening)
    }

    /// A call of this agent with these sentences.
    pub fn speaking(agent: AgentTraits, rules: CallRules, clips: Clips) -> Self {
        let opening = Opening { caller_known: true, ..Opening::default() };
        Self::plan(
            agent,
            rules,
            clips,
            toolbox([look_up(), approved_tool("slow")]),
            PolicyRules::default(),
            opening,
            false,
        )
    }

    /// A call whose caller writes, and whose agent has greeted them.
    pub fn writing(rules: CallRules, tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        let opening = Opening { caller_known: true, ..Opening::default() };
        let mut stage = Self::plan(AGENT, rules, clips(), toolbox(tools), PolicyRules::default(), opening, true);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600);
        stage
    }

    /// The same by another agent.
    pub fn by(
        agent: AgentTraits,
        rules: CallRules,
        tools: impl IntoIterator<Item = ToolSpec>,
        policy: PolicyRules,
        opening: Opening,
    ) -> Self {
        Self::plan(agent, rules, clips(), toolbox(tools), policy, opening, false)
    }

    fn plan(
        agent: AgentTraits,
        rules: CallRules,
        clips: Clips,
        toolbox: Arc<Toolbox>,
        policy: PolicyRules,
        opening: Opening,
        written: bool,
    ) -> Self {
        #[allow(clippy::disallowed_methods)] // A hand-moved clock has to start somewhere.
        let start = Instant::now();
        let latencies: Arc<Latencies> = Arc::default();
        let plan = CallPlan {
            rules,
            toolbox,
            policy: Arc::new(policy),
            opening,
            wall: jiff::Timestamp::UNIX_EPOCH,
            agent,
            format: Format::ULAW,
            clips: Arc::new(clips),
            latencies: Arc::clone(&latencies),
            written,
            beat: start,
        };
        Self {
            machine: CallMachine::with_ears(plan, Box::new(Heeding), start),
            start,
            now: start,
            seen: Vec::new(),
            understudies: VecDeque::new(),
            latencies,
        }
    }

    /// A call whose caller and agent are both there, the greeting asked for but not begun.
    pub fn answered(rules: CallRules) -> Self {
        let mut stage = Self::new(rules);
        stage.leg(LegEvent::Up);
        stage.agent(AgentEvent::Ready);
        stage
    }

    /// A call in which the greeting was said.
    pub fn greeted() -> Self {
        let mut stage = Self::answered(rules());
        stage.reply("greeting", 500);
        stage.after(600);
        stage
    }

    /// The same with these tools, the caller patient for an hour.
    pub fn with_tools(tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        Self::with_rules_and_tools(rules(), tools)
    }

    /// The same by other rules.
    pub fn with_rules_and_tools(rules: CallRules, tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        let opening = Opening { caller_known: true, pin: Some("246813".to_owned().into()), ..Opening::default() };
        let patient = CallRules { no_input_after: Duration::from_secs(3_600), ..rules };
        let mut stage = Self::cast(patient, tools, PolicyRules::default(), opening);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600);
        stage
    }

    /// A call with these tools and a voice that speaks the sentences of the call as well.
    pub fn with_voice(tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        let opening = Opening { caller_known: true, ..Opening::default() };
        let patient = CallRules { no_input_after: Duration::from_secs(3_600), ..rules() };
        let clips = Clips { has_voice: true, ..clips() };
        let mut stage = Self::plan(AGENT, patient, clips, toolbox(tools), PolicyRules::default(), opening, false);
        stage.leg(LegEvent::Up).agent(AgentEvent::Ready).reply("greeting", 500).after(600);
        stage
    }

    pub fn input(&mut self, input: Input) -> &mut Self {
        let mut out = Vec::new();
        self.machine.step(input, self.now, &mut out);
        self.keep(out);
        self
    }

    pub fn leg(&mut self, event: LegEvent) -> &mut Self {
        self.input(Input::Leg(event))
    }

    pub fn agent(&mut self, event: AgentEvent) -> &mut Self {
        self.input(Input::Agent(event))
    }

    fn keep(&mut self, out: Vec<Output>) {
        let at = self.now - self.start;
        let dials = out.iter().filter(|output| matches!(output, Output::Dial(_))).count();
        self.seen.extend(out.into_iter().map(|output| (at, output)));
        for _ in 0..dials {
            // The engine says at once whom it dials.
            let next = match self.understudies.pop_front() {
                Some(successor) => Next::Dialling(Box::new(successor)),
                None => Next::Nobody,
            };
            self.input(Input::Next(next));
        }
    }

    /// Lets milliseconds pass, deadline by deadline.
    pub fn after(&mut self, ms: u64) -> &mut Self {
        let until = self.now + Duration::from_millis(ms);
        while let Some((at, _)) = self.machine.deadline().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            let mut out = Vec::new();
            self.machine.on_deadline(self.now, &mut out);
            self.keep(out);
            let next = self.machine.deadline().map(|(at, _)| at);
            assert!(next.is_none_or(|next| next > self.now), "the next deadline lies ahead");
        }
        self.now = until;
        self
    }

    /// The engine was held up: time passes without a deadline being served.
    pub fn stall(&mut self, ms: u64) -> &mut Self {
        self.now += Duration::from_millis(ms);
        self
    }

    /// The clock is not what it should be.
    pub fn step_back(&mut self, ms: u64) -> &mut Self {
        self.now -= Duration::from_millis(ms);
        self
    }

    pub fn starts(&mut self, response: &str) -> &mut Self {
        self.agent(AgentEvent::ResponseStarted { response: response.into() })
    }

    /// Audio of `ms` milliseconds, all at once.
    pub fn speaks(&mut self, response: &str, ms: usize) -> &mut Self {
        let audio = Bytes::from(vec![VOICE; ms * 8]);
        self.agent(AgentEvent::Audio { response: response.into(), item: response.into(), audio })
    }

    pub fn done(&mut self, response: &str) -> &mut Self {
        self.agent(AgentEvent::ResponseDone { response: response.into(), status: ResponseStatus::Completed })
    }

    pub fn reply(&mut self, response: &str, ms: usize) -> &mut Self {
        self.starts(response).speaks(response, ms).done(response)
    }

    /// The caller says something of `ms` milliseconds.
    pub fn caller_says(&mut self, ms: u64) -> &mut Self {
        self.agent(AgentEvent::CallerSpeechStarted { utterance: None }).after(ms).agent(AgentEvent::CallerSpeechStopped)
    }

    /// The caller says something that is transcribed.
    pub fn caller_tells(&mut self, words: &str) -> &mut Self {
        self.caller_says(300).hears(Speaker::Caller, words)
    }

    /// The agent asks or tells something, and it is transcribed.
    pub fn agent_tells(&mut self, response: &str, words: &str) -> &mut Self {
        self.reply(response, 500).hears(Speaker::Agent, words).after(600)
    }

    pub fn hears(&mut self, speaker: Speaker, words: &str) -> &mut Self {
        self.agent(AgentEvent::Transcript { speaker, text: words.into(), utterance: None })
    }

    /// A response that consists of this call.
    pub fn only_calls(&mut self, id: &str, name: &str, arguments: &str) -> &mut Self {
        self.starts(id).calls_tool(id, name, arguments).done(id)
    }

    /// The tool that last began under this name comes to an end.
    pub fn finishes(&mut self, name: &str, outcome: ToolOutcome) -> &mut Self {
        let id = self.approved().into_iter().rfind(|call| call.name() == name).expect("it runs").id();
        self.input(Input::ToolFinished { id, outcome })
    }

    /// Another context takes over, as the engine arranges it at once.
    pub fn hands_over(&mut self, context: &str, tools: impl IntoIterator<Item = ToolSpec>) -> &mut Self {
        self.hands_over_under(rules(), context, tools)
    }

    pub fn hands_over_under(
        &mut self,
        rules: CallRules,
        context: &str,
        tools: impl IntoIterator<Item = ToolSpec>,
    ) -> &mut Self {
        self.hands_over_to(AGENT, rules, context, tools)
    }

    pub fn hands_over_to(
        &mut self,
        agent: AgentTraits,
        rules: CallRules,
        context: &str,
        tools: impl IntoIterator<Item = ToolSpec>,
    ) -> &mut Self {
        self.taken_over_by(Handover { agent, ..next(context, rules, clips(), toolbox(tools)) })
    }

    /// To a context with these sentences.
    pub fn hands_over_with(&mut self, rules: CallRules, clips: Clips) -> &mut Self {
        self.taken_over_by(next("billing", rules, clips, toolbox([])))
    }

    fn taken_over_by(&mut self, next: Handover) -> &mut Self {
        self.input(Input::HandedOff(Box::new(next)))
    }

    pub fn calls_tool(&mut self, id: &str, name: &str, arguments: &str) -> &mut Self {
        self.agent(AgentEvent::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }))
    }

    /// Runs the built-in tools that were approved and not run yet, as the engine would.
    pub fn runs_tools(&mut self) -> &mut Self {
        let destinations = [("sales".to_owned(), "The sales desk".to_owned())].into();
        for call in self.approved() {
            let Some(tool) = built_in(call.name(), &destinations) else { continue };
            let id = call.id();
            let outcome = futures_util::FutureExt::now_or_never(tool.run(call, &facts())).unwrap();
            self.input(Input::ToolFinished { id, outcome });
        }
        self
    }
}

pub fn facts() -> offhook_core::facts::CallFacts {
    offhook_core::facts::CallFacts::new(offhook_core::facts::CallId::random(), "reception", "test")
}
