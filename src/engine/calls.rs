//! The doors of the engine: a channel in `Stasis()`, `AudioSocket()` straight from the dialplan, and
//! somebody on the page who writes. Each becomes a call with a task of its own, or is turned away.

use super::{
    Ari, Shared,
    admission::{Granted, NoContext, Refused, Wish, grant},
    agent::{Briefing, Casting, Session},
    bill::Bill,
    call_task::CallTask,
    caller,
    ears::ears,
    generation::Generation,
    line::{ByAri, Line, Places},
    live::{Doors, Seat, Shown},
    opening::{self, Told},
    outside::Outside,
    post::Post,
    story::Story,
    succession::{self, First, Succession},
    transferred::SentAway,
};
use crate::{
    asterisk::{
        ari::PRESENTATION,
        events::Arrival,
        hub::WalkIn,
        leg::{STATUS_VARIABLE, decline},
        setup::Plan,
    },
    call::{CallMachine, CallPlan, CallRules, EndReason, Note},
    config::{Config, RecordsConfig, Transport, prompt},
    facts::{CallFacts, CallId, Direction, Party, Residency},
    http::NoConversation,
    records::{Close, Diary, Ending},
    redact::Redacted,
    telemetry::{Declined, call_span},
    tool::TRANSFER,
    vam::{Agreed, Ends},
    wall_clock,
};
use futures_util::{FutureExt as _, future::join_all};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::{Instrument as _, error, info, warn};

/// Channel variables that say how a call is to be taken, and what is known of it.
const VARIABLES: [&str; 13] = [
    "AI_CONTEXT",
    "AI_PROVIDER",
    "AI_GREETING",
    "AI_AUDIO",
    "AI_DIRECTION",
    "AI_CAMPAIGN_ID",
    "AI_LEAD_ID",
    opening::AUTHORIZATION,
    opening::USER,
    // Where trunks and FreePBX leave the number that was dialled.
    "FROM_DID",
    // Ours, from an earlier visit of the same call.
    STATUS_VARIABLE,
    PRESENTATION,
    TIME_LEFT,
];
/// Seconds until Asterisk takes the channel from us, by the dialplan's `Set(TIMEOUT(absolute)=…)`; `0`: never.
const TIME_LEFT: &str = "TIMEOUT(absolute)";
/// How a VAM client's audio travels, in logs and records.
const STREAMED: &str = "vam";
/// Sentences of tools that wait to be said; a call that runs takes them at once.
const ASIDES_MAX: usize = 4;
/// What operators want of a call before it looks; more than one at once is an accident.
const ORDERS_MAX: usize = 4;
/// The transport of conversations in writing, in the log and in records.
const WRITTEN: &str = "written";
/// Greetings come from the dialplan; a longer one is a mistake.
const GREETING_CHARS_MAX: usize = 2_000;

/// A channel entered our Stasis application.
pub(super) fn arrive(shared: &Arc<Shared>, arrival: Arrival) {
    // Without ARI there are no arrivals.
    let Some(ari) = shared.ari.clone() else { return };
    let generation = shared.generation.load_full();
    let seat = if arrival.orphan {
        Err("RESTARTED")
    } else if *shared.draining.borrow() {
        shared.metrics.call_declined(Declined::Draining);
        Err(Declined::Draining.status())
    } else {
        shared.live.seat(generation.config.limits.calls).ok_or_else(|| {
            shared.metrics.call_declined(Declined::Full);
            Declined::Full.status()
        })
    };
    let shared = Arc::clone(shared);
    shared.calls.clone().spawn(async move {
        match seat {
            Ok(seat) => take(shared, ari, generation, arrival, seat).await,
            Err(status) => {
                info!(status, "the call goes back to the dialplan");
                give_back(&ari, &arrival, status).await;
            }
        }
    });
}

/// An AudioSocket connection that no call waits for.
pub(super) fn walk_in(shared: &Arc<Shared>, walk_in: WalkIn) {
    let generation = shared.generation.load_full();
    let prefix: [u8; 4] = std::array::from_fn(|index| walk_in.id.as_bytes()[index]);
    let context = generation.config.contexts.values().find(|context| context.audiosocket_id == Some(prefix));
    let seat = match context {
        None => {
            warn!(audiosocket_uuid = %walk_in.id, "an AudioSocket connection whose UUID begins with no context's audiosocket_id; refused");
            shared.metrics.context_unknown();
            Err(Declined::NoContext)
        }
        Some(_) if *shared.draining.borrow() => Err(Declined::Draining),
        Some(context) => {
            let seat = shared.live.seat(generation.config.limits.calls).ok_or(Declined::Full);
            seat.map(|seat| (seat, context.name.clone()))
        }
    };
    let shared = Arc::clone(shared);
    shared.calls.clone().spawn(async move {
        let (seat, context) = match seat {
            Ok(seat) => seat,
            Err(why) => {
                shared.metrics.call_declined(why);
                info!(status = why.status(), "the AudioSocket call goes back to the dialplan");
                return walk_in.leg.hang_up().await;
            }
        };
        info!(audiosocket_uuid = %walk_in.id, "a call by AudioSocket()");
        let wish = Wish { context: Some(context), ..Wish::default() };
        // The context was found in this very generation.
        let Ok(granted) = grant(&generation, wish) else { return walk_in.leg.hang_up().await };
        if granted.context.tools.iter().any(|tool| tool == TRANSFER) {
            info!("this call came by AudioSocket(): transfer needs ARI and is not offered to the agent");
        }
        // The UUID is the dialplan's, which may use one twice; a call's id is its own.
        let facts = CallFacts::new(CallId::random(), &granted.context.name, &granted.provider_name);
        let format = walk_in.leg.format;
        let began = Instant::now();
        let transport = Transport::AudioSocket.label();
        let told = Told::default();
        let peer = Some(walk_in.id.to_string());
        let start = Start { facts, transport, peer, format, began, seat, transfers: false, written: None, told };
        let counters = Arc::clone(shared.media.counters());
        run(shared, generation, granted, start, || Line::walk_in(walk_in.leg, counters)).await;
    });
}

/// A conversation in writing, to try what a context does. It takes a place like any call, and is recorded as one.
pub(super) async fn converse(shared: Arc<Shared>, context: String) -> Result<CallId, NoConversation> {
    let generation = shared.generation.load_full();
    if !generation.config.contexts.contains_key(&context) {
        return Err(NoConversation::NoSuchContext);
    }
    if *shared.draining.borrow() {
        shared.metrics.call_declined(Declined::Draining);
        return Err(NoConversation::Draining);
    }
    let Some(seat) = shared.live.seat(generation.config.limits.calls) else {
        shared.metrics.call_declined(Declined::Full);
        return Err(NoConversation::Full);
    };
    let wish = Wish { context: Some(context), ..Wish::default() };
    let granted = grant(&generation, wish).map_err(|_| NoConversation::NoSuchContext)?;
    let id = CallId::random();
    let facts = CallFacts::new(id, &granted.context.name, &granted.provider_name);
    let (format, began, told) = (granted.audio.format, Instant::now(), Told::default());
    let (entered, is_live) = oneshot::channel();
    let (transport, written) = (WRITTEN, Some(entered));
    let peer = None;
    let start = Start { facts, transport, peer, format, began, seat, transfers: false, written, told };
    shared.calls.clone().spawn(async move {
        run(shared, generation, granted, start, || Line::written(format)).await;
    });
    // Whoever knows the call can look at it. A call that fails before is gone as well.
    let _ = is_live.await;
    Ok(id)
}

/// A VAM client, who talks by a stream of its own. `None`: no more calls are taken.
pub(super) async fn stream(shared: Arc<Shared>, agreed: Agreed) -> Option<Ends> {
    let generation = shared.generation.load_full();
    if *shared.draining.borrow() {
        shared.metrics.call_declined(Declined::Draining);
        return None;
    }
    let Some(seat) = shared.live.seat(generation.config.limits.calls) else {
        shared.metrics.call_declined(Declined::Full);
        return None;
    };
    let wish = Wish { context: Some(agreed.context.clone()), ..Wish::default() };
    let granted = grant(&generation, wish).ok()?;
    let mut facts = CallFacts::new(CallId::random(), &granted.context.name, &granted.provider_name);
    (facts.caller_number, facts.residency) = (agreed.caller.clone(), agreed.residency);
    let (format, began) = (agreed.format, Instant::now());
    let told = Told { authorization: agreed.authorization, ..Told::default() };
    // The client's own choice: a UUID is nobody's number.
    let session: Option<uuid::Uuid> = agreed.session_id.parse().ok();
    let (transport, peer, written) = (STREAMED, session.map(|id| id.to_string()), None);
    let start = Start { facts, transport, peer, format, began, seat, transfers: false, written, told };
    let (line, ends, cues) = Line::streamed();
    let known = shared.vam.as_ref().map(|vam| vam.actions.know(start.facts.id, &agreed, cues));
    shared.calls.clone().spawn(async move {
        run(shared, generation, granted, start, || line).await;
        drop(known);
    });
    Some(ends)
}

async fn take(shared: Arc<Shared>, ari: Ari, generation: Arc<Generation>, mut arrival: Arrival, seat: Seat) {
    let began = Instant::now();
    let variables = variables(&ari, &arrival, &generation.config).await;
    let text = |name: &str| variables.get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let times_out = text(TIME_LEFT).and_then(|left| time_left(&left)).and_then(|left| Instant::now().checked_add(left));
    if text(STATUS_VARIABLE).is_some()
        && let Err(error) = ari.client.set_variable(arrival.registration.caller(), STATUS_VARIABLE, "").await
    {
        warn!(%error, "the status of an earlier visit could not be cleared");
    }
    let greeting = text("AI_GREETING").map(|greeting| greeting.chars().take(GREETING_CHARS_MAX).collect());
    let wish = Wish {
        context: text("AI_CONTEXT").or_else(|| arrival.args.first().cloned().filter(|arg| !arg.is_empty())),
        provider: text("AI_PROVIDER"),
        greeting,
        audio: text("AI_AUDIO"),
    };
    let granted = match grant(&generation, wish) {
        Ok(granted) => granted,
        Err(NoContext { asked }) => {
            warn!(
                asked = asked.is_some(),
                "no such context and no default_context; the call goes back to the dialplan"
            );
            if asked.is_some() {
                shared.metrics.context_unknown();
            }
            shared.metrics.call_declined(Declined::NoContext);
            return give_back(&ari, &arrival, Declined::NoContext.status()).await;
        }
    };
    let direction = match text("AI_DIRECTION").as_deref() {
        Some("outbound") => Direction::Outbound,
        None if arrival.outbound => Direction::Outbound,
        _ => Direction::Inbound,
    };
    let keeps = shared.bound.asterisk.as_ref().is_some_and(|asterisk| asterisk.keeps_withheld_numbers);
    let Party { name: caller_name, number: caller_number } =
        caller::of(&mut arrival, text(PRESENTATION).as_deref(), keeps);
    let facts = CallFacts {
        id: CallId::random(),
        context: granted.context.name.clone(),
        provider: granted.provider_name.clone(),
        direction,
        caller_name,
        caller_number,
        dialled_number: Redacted::new(text("FROM_DID").or_else(|| arrival.dialled.reveal().clone())),
        campaign_id: text("AI_CAMPAIGN_ID"),
        lead_id: text("AI_LEAD_ID"),
        variables: prompt_variables(&generation.config, &variables).into(),
        residency: Residency::Any,
    };
    let (transport, format) = (granted.audio.transport.label(), granted.audio.format);
    let told = Told { variables: variables.into(), place: arrival.place.clone(), authorization: None };
    let peer = Some(arrival.registration.caller().to_owned());
    let start = Start { facts, transport, peer, format, began, seat, transfers: true, written: None, told };
    let call = ByAri {
        plan: Plan::new(start.facts.id, arrival.answered, granted.audio, &generation.config.media),
        times_out,
        keeps_withheld_numbers: keeps,
        ari: ari.client,
        arrival,
        media: Arc::clone(&shared.media),
        places: Arc::new(Places {
            destinations: generation.config.destinations.clone(),
            voicemail: generation.config.voicemail.clone(),
        }),
    };
    run(shared, generation, granted, start, || Line::by_ari(call)).await;
}

/// Time that `TIMEOUT(absolute)` tells, in seconds with decimals; `None`: none is set.
fn time_left(told: &str) -> Option<Duration> {
    let seconds = told.parse().ok().filter(|seconds| *seconds > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

async fn give_back(ari: &Ari, arrival: &Arrival, status: &str) {
    if let Err(error) = decline(&ari.client, arrival.registration.caller(), status).await {
        warn!(%error, status, "the caller could not be given back to the dialplan");
    }
}

/// Every variable that matters, in one go.
async fn variables(ari: &Ari, arrival: &Arrival, config: &Config) -> BTreeMap<String, String> {
    // What `channelvars` in ari.conf sends along need not be asked for.
    let mut known = arrival.variables.reveal().clone();
    let chosen = opening::variables(config);
    let names: BTreeSet<&str> = VARIABLES.into_iter().chain(chosen.iter().map(String::as_str)).collect();
    let unknown: Vec<&str> = names.into_iter().filter(|name| !known.contains_key(*name)).collect();
    known.extend(ari.client.variables(arrival.registration.caller(), &unknown).await);
    known
}

/// Variables of the channel that prompts and greetings name.
fn prompt_variables(config: &Config, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = |name: &str| Some((name.to_owned(), variables.get(name)?.clone()));
    config.prompt_variables().into_iter().filter_map(known).collect()
}

/// What a call begins with, whichever door it came through.
struct Start {
    facts: CallFacts,
    /// How the audio travels, for the log.
    transport: &'static str,
    /// What the other side calls it, for the log: Asterisk's channel, the UUID of an AudioSocket, a VAM session.
    peer: Option<String>,
    format: crate::audio::Format,
    began: Instant,
    seat: Seat,
    transfers: bool,
    /// The caller writes; told when the call can be seen.
    written: Option<oneshot::Sender<()>>,
    told: Told,
}

/// Passes over a provider that fails, where its context has another one. Returns all that may speak, in order.
fn choose(shared: &Shared, generation: &Generation, granted: &mut Granted, facts: &mut CallFacts) -> Vec<String> {
    let order = succession::order(&facts.provider, &granted.context);
    if let Some((name, how)) = succession::first(shared, &order)
        && let Some(provider) = generation.providers.get(name)
    {
        let asked = std::mem::replace(&mut facts.provider, name.to_owned());
        granted.provider = Arc::clone(provider);
        call_span(facts).in_scope(|| match how {
            First::AsAsked => {}
            First::Instead => warn!(asked, "the provider that was asked for fails; the call begins with a fallback"),
            First::Anyway => warn!("the provider fails, and there is no other; it is tried anyway"),
        });
    }
    order
}

/// The whole life of an admitted call, and what is learnt of it afterwards.
async fn run(
    shared: Arc<Shared>,
    generation: Arc<Generation>,
    granted: Granted,
    start: Start,
    line: impl FnOnce() -> Line,
) {
    let span = call_span(&start.facts);
    if let Some(sent_away) = live(&shared, generation, granted, start, line).await {
        sent_away.followed(&shared).instrument(span).await;
    }
}

/// An admitted call until it is over and told of. Returns it where its caller was sent to a place of the dialplan.
async fn live(
    shared: &Arc<Shared>,
    generation: Arc<Generation>,
    mut granted: Granted,
    start: Start,
    line: impl FnOnce() -> Line,
) -> Option<SentAway> {
    let Start { mut facts, transport, peer, format, began, seat, transfers, written: begun, told } = start;
    let written = begun.is_some();
    let order = choose(shared, &generation, &mut granted, &mut facts);
    let span = call_span(&facts);
    for refused in &granted.refused {
        span.in_scope(|| warn!(variable = refused.variable, "{}; the call goes on without it", refused.reason));
        if refused.variable == "AI_CONTEXT" {
            shared.metrics.context_unknown();
        }
    }
    let (orders, ordered) = mpsc::channel(ORDERS_MAX);
    let (words, asides) = mpsc::channel(ASIDES_MAX);
    let outside = Outside::new(ordered, asides);
    let (ears, tap) = ears(format);
    // Who forbids that something is kept does not want it on screens either.
    let kept = |kept: fn(&RecordsConfig) -> bool| shared.bound.records.as_ref().is_none_or(kept);
    let is_client = shared.vam.is_some() && transport == STREAMED;
    let shown = Shown {
        words: kept(|records| records.words) || written,
        numbers: kept(|records| records.numbers) && !is_client,
    };
    let mut entered = shared.live.enter(
        &facts,
        seat,
        Doors { orders, words, tap, transfers: transfers.then(|| Arc::clone(&generation)), written },
        // Who writes sees the conversation there alone.
        shown,
    );
    // Whoever asked may have gone.
    let _ = begun.map(|begun| begun.send(()));
    let _counted = shared.metrics.call_started();
    let toolbox = generation.toolbox(&facts.context, transfers).offered_under(facts.residency);
    let greeting = granted.greeting.as_deref().map(|greeting| match &granted.context.greeting {
        Some(own) if own == greeting => prompt::fill(greeting, &facts),
        // The dialplan's own, which may hold the caller's name: that names no variables.
        _ => prompt::fill(greeting, &CallFacts { variables: Redacted::default(), ..facts.clone() }),
    });
    let traits = granted.provider.traits();
    let identify = &granted.context.policy.identify;
    let mut opening = opening::opening(&facts, traits, identify, &told);
    if let Some(tenant) = granted.context.tenant.as_ref().and_then(|tenant| generation.config.tenants.get(tenant)) {
        opening.memory.tenant.clone_from(&tenant.memory);
    }
    let greeting_by = granted.context.speech.greeting_by;
    let repertoire = generation.repertoire(&facts.context);
    let clips = repertoire.for_call(greeting_by, greeting.as_deref(), &shared.studio).await;
    let succession = Succession::new(order, &facts.provider, greeting.clone(), &clips);
    let plan = CallPlan {
        rules: CallRules { greeting, ..granted.context.rules.clone() },
        toolbox: Arc::clone(&toolbox),
        policy: Arc::clone(&granted.context.policy.rules),
        opening,
        wall: wall_clock::now(),
        agent: traits,
        format,
        clips,
        latencies: Arc::clone(&shared.latencies),
        written,
        beat: shared.beat,
    };
    let casting = Casting { context: granted.context, provider: granted.provider, toolbox: Arc::clone(&toolbox) };
    let policy = succession::first_policy(&casting.context, succession.has_other());
    let (opens, heard) = (succession.opens(), succession.heard());
    let briefing = Briefing { story: None, resume: None, opens, heard, policy };
    let session = casting.dial(shared, &facts, format, briefing, &span);
    let mut bill = Bill::default();
    bill.session(&facts.provider, &session);
    let mut line = line();
    let known = facts.clone();
    let (mut post, since) = (Post::default(), wall_clock::now());
    let diary = || {
        let diary = Diary::new(shared.bound.records.as_ref()?, since);
        // Where VAM is served, what it keeps from logs is kept from records.
        Some(if shared.vam.is_some() { diary.masking(is_client) } else { diary })
    };
    if let (Some(records), Some(empty)) = (&shared.records, diary()) {
        records.begun(empty.close(&known, Close::of_a_beginning(&known, generation.number, transport, format)));
    }
    let mut diary = diary();
    for Refused { variable, reason } in granted.refused {
        let note = Note::NotGranted { variable, why: reason };
        entered.observe("connecting", &note);
        if let Some(diary) = &mut diary {
            diary.note(Duration::ZERO, &note);
        }
    }
    let mut recorder = shared.records.as_ref().map(|records| records.recorder(facts.id, format));
    let (reason, sessions) = async {
        if let Some(kept) = Some(toolbox.kept_from(facts.residency)).filter(|kept| !kept.is_empty()) {
            let (rule, tools) = (facts.residency.label(), kept.join(", "));
            info!(rule, tools, "tools are not offered: what is said in this call may not go where they send it");
        }
        let (number, direction) = (generation.number, facts.direction.label());
        info!(generation = number, audio = %format, transport, peer, direction, "call began");
        let mut task = CallTask {
            machine: CallMachine::new(plan, began.into_std()),
            facts,
            toolbox,
            session,
            generation: &generation,
            format,
            variables: told.variables,
            transfers,
            succession,
            outside,
            entered: &entered,
            post: &mut post,
            diary: &mut diary,
            recorder: &mut recorder,
            ears,
            story: Story::default(),
            bill: &mut bill,
            shared,
            began,
            agent_heard: false,
        };
        // A fault in one call ends that call alone, and the caller still gets back to the dialplan.
        let reason = AssertUnwindSafe(task.run(&mut line)).catch_unwind().await;
        let reason = reason.unwrap_or_else(|_| {
            error!("the call's task failed; the caller goes back to the dialplan");
            EndReason::EngineFault
        });
        task.part_ended(reason);
        let CallTask { session, succession, .. } = task;
        (reason, succession.into_session().into_iter().chain([session]))
    }
    .instrument(span.clone())
    .await;
    span.in_scope(|| {
        let seconds = began.elapsed().as_millis() as f64 / 1_000.0;
        info!(reason = reason.label(), class = reason.class().label(), seconds, "call ended: {}", reason.describe());
    });
    // The caller's way out, the session's end and the recording's do not wait for each other.
    let sessions = join_all(sessions.map(Session::close));
    let recording = async { recorder?.finish().await };
    let (recording, transferee, _) =
        tokio::join!(recording, line.clear_away(reason).instrument(span.clone()), sessions);
    span.in_scope(|| {
        post.send(shared.mailer.as_ref(), &generation.config, since);
        let prices = &generation.config.prices;
        let last_turn = bill.end_turn(prices);
        let usage = bill.settle(prices, &shared.metrics);
        if let (Some(records), Some(mut diary), Some(now)) = (&shared.records, diary, entered.now()) {
            last_turn.into_iter().for_each(|used| diary.used(used));
            let close = Close {
                context: now.call.context,
                provider: now.call.provider,
                seconds: began.elapsed().as_secs_f64(),
                generation: generation.number,
                transport: transport.to_owned(),
                format: format.to_string(),
                reason: Ending::from(reason),
                counts: now.counts,
                usage: usage.clone(),
                recording,
            };
            records.keep(diary.close(&known, close));
        }
        entered.ended(reason, usage);
    });
    shared.metrics.call_ended(reason);
    tracing::debug!(call_id = %known.id, "cleared away");
    transferee.map(|transferee| SentAway { call: known.id, began, reason, transferee })
}
