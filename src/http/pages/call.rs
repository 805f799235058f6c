//! One call that has ended: why, and everything that is kept of it.

use super::{axis, figures, plot::places, shell, story, text, waveform};
use crate::{
    call::EndClass,
    facts::CallId,
    http::{
        api::{Id, private, remove, unread},
        login::{Door, Role, Who},
        routes::Routes,
        site::App,
        view::EndedCall,
    },
    records::{Ending, Event, NoWaveform, Record, Sound, Turn, Used},
    wall_clock,
};
use axum::{
    extract::State,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::{Markup, html};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, time::Duration};

/// A record that is not there so long after the end of its call is not on its way.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/history/{id}", Door::Page(Role::Viewer), page);
    routes.page(Method::POST, "/history/{id}/delete", Door::Page(Role::Admin), delete);
}

async fn page(State(app): State<App>, who: Who, Id(id): Id) -> Result<Response, Response> {
    let Some(reader) = &app.history else { return Ok(without_record(&app, &who, id)) };
    let Some(record) = reader.get(id).await.map_err(|error| unread(&error))? else {
        return Ok(without_record(&app, &who, id));
    };
    let sound = match record.recording.is_some() && private::sees_all(&who) {
        true => Some(reader.sound(id).await),
        false => None,
    };
    let record = private::record(&who, record);
    let main = html! {
        p.path { a href="/history" { (text::HISTORY) } }
        div.title {
            h1 { (text::CALL) " " (figures::moment(record.began)) }
            @if who.may(Role::Admin) { (ask(&who, &record)) }
        }
        (head(&who, &record))
        section aria-labelledby="axis" {
            h2 #axis { (text::TIMELINE) }
            @let picture = matches!(sound, Some(Ok(_))).then(|| waveform::address(&record));
            (axis::draw(&record, picture.as_deref()))
            @if let Some(sound) = &sound { (heard(&record, sound)) }
        }
        div.columns {
            section aria-labelledby="story-head" {
                h2 #story-head { (text::TRANSCRIPT) }
                @if !private::sees_all(&who) { p.soft { (text::NO_WORDS) } }
                (transcript(&record))
            }
            div {
                section aria-labelledby="waterfall" { h2 #waterfall { (text::WATERFALL) } (waterfall(&record)) }
                section aria-labelledby="tools" { h2 #tools { (text::TOOL_LOG) } (tools(&record)) }
                section aria-labelledby="usage" { h2 #usage { (text::USAGE) } (usage(&record.usage)) }
            }
        }
    };
    Ok(shell::page(&who, "/history", text::CALL, &main).into_response())
}

/// Records are written after the call: who follows it to its end may be faster.
fn without_record(app: &App, who: &Who, id: CallId) -> Response {
    let just_ended = |EndedCall { call, lasted, .. }: &EndedCall| {
        call.id == id && wall_clock::now().duration_since(call.since).unsigned_abs() < *lasted + WRITTEN_WITHIN
    };
    if app.history.is_none() || !app.view.calls().recent.iter().any(just_ended) {
        return shell::refusal(who, StatusCode::NOT_FOUND, text::GONE);
    }
    let mut answer = shell::refusal(who, StatusCode::ACCEPTED, text::NOT_YET);
    let again = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, again.clone());
    answer.headers_mut().insert(header::REFRESH, again);
    answer
}

fn ask(who: &Who, record: &Record) -> Markup {
    html! {
        details.ask {
            summary.button.quiet { (text::DELETE) }
            form.card method="post" action={ "/history/" (record.id) "/delete" } {
                (shell::csrf(who))
                p { (text::DELETE_HELP) }
                button.danger { (text::DELETE_NOW) }
            }
        }
    }
}

fn head(who: &Who, record: &Record) -> Markup {
    let Record { reason, counts, .. } = record;
    let fact = |name: &str, value: &str| html! { div { dt { (name) } dd { (value) } } };
    let numbers = [
        (text::CALLER, &record.caller_number),
        (text::NAME, &record.caller_name),
        (text::DIALLED, &record.dialled_number),
        (text::CAMPAIGN, &record.campaign_id),
        (text::LEAD, &record.lead_id),
    ];
    html! {
        p.why.(figures::class_name(&reason.class)) {
            (figures::ending(&reason.class, &reason.label, &reason.description)) " " (text::sentence(&reason.description)) "."
        }
        dl.facts {
            (fact(text::LASTED, &figures::duration(record.seconds)))
            @if private::sees_all(who) {
                @for (name, value) in numbers { @if let Some(value) = value { (fact(name, value)) } }
            }
            (fact(text::DIRECTION, record.direction.label()))
            (fact(text::CONTEXT, &record.context))
            (fact(text::PROVIDER, &record.provider))
            (fact(text::TURNS, &counts.agent_turns.to_string()))
            (fact(text::BARGE_INS, &counts.barge_ins.to_string()))
            (fact(text::KEYS, &counts.keys.to_string()))
            @if let Some(cost) = figures::cost(&record.usage) { (fact(text::COST, &cost)) }
            (fact(text::AUDIO, &format!("{} {}", record.transport, record.format)))
            (fact(text::FRAMES, &counts.frames_dropped.to_string()))
            (fact(text::GENERATION, &record.generation.to_string()))
            div.id { dt { (text::CALL) } dd { code { (record.id) } } }
        }
    }
}

/// The recording, and what is wrong with it. Scripts begin it where somebody points to, and ask for its length once
/// the page is there: the page waits for no sound.
fn heard(record: &Record, sound: &Result<Sound, NoWaveform>) -> Markup {
    /// The end of a recording is written while its length is told.
    const CUT_SECONDS: f64 = 1.0;
    let Some(recorded) = &record.recording else { return html! {} };
    let address = format!("/api/v1/calls/{}/recording", record.id);
    html! {
        @match sound {
            Ok(sound) if recorded.seconds - sound.seconds() > CUT_SECONDS => p.notice {
                (text::cut(&figures::duration(sound.seconds()), &figures::duration(recorded.seconds)))
            },
            // Scripts say so when the picture does not come.
            Ok(_) => p.notice #undrawn role="status" hidden data-told={ (text::UNDRAWN) "." } {},
            Err(NoWaveform::Missing) => p.notice { (text::NO_SOUND) },
            Err(why) => p.notice { (text::UNDRAWN) ": " (why.to_string()) "." },
        }
        @if !matches!(sound, Err(NoWaveform::Missing)) {
            div.player {
                audio #sound controls preload="none" src=(address) data-began=(recorded.began_ms)
                    data-from=(text::PLAY_FROM) aria-label=(text::RECORDING) {}
                span.soft { (text::SIDES) }
                a href=(address) download=(recorded.file) { (text::DOWNLOAD) }
            }
        }
        @for (why, seconds) in &recorded.lost_seconds {
            p.soft { (text::LOST_SOUND) " " (text::seconds((seconds * 1_000.0) as u64)) " (" (why.replace('_', " ")) ")" }
        }
    }
}

fn transcript(record: &Record) -> Markup {
    let lines: Vec<Markup> = record.entries.iter().filter_map(story::line).collect();
    html! {
        @if lines.is_empty() { p.empty { (text::NOTHING_TOLD) } }
        ol.story { @for line in &lines { (line) } }
        @if record.left_out > 0 { p.soft { (record.left_out) " " (text::LEFT_OUT) } }
    }
}

/// Stages as the styles name them.
const STAGES: [&str; 4] = ["endpointing", "thinking", "speaking", "playout"];

fn stages(turn: &Turn) -> [u64; 4] {
    [turn.endpointing_ms, turn.thinking_ms, turn.speaking_ms, turn.playout_ms]
}

fn waterfall(record: &Record) -> Markup {
    let turns = &record.turns;
    let cost = |turn: u64| {
        let its = record.turn_usage.iter().filter(|used| used.turn == turn).map(|used| &used.used);
        figures::cost(its)
    };
    // Also what has a price and no answer: the greeting, say.
    let others: BTreeSet<u64> = record.turn_usage.iter().map(|used| used.turn).collect();
    let others = others.into_iter().filter(|other| turns.iter().all(|turn| turn.turn != *other));
    let mut rows: Vec<(u64, Option<&Turn>, Option<String>)> =
        turns.iter().map(|turn| (turn.turn, Some(turn), cost(turn.turn))).collect();
    rows.extend(others.filter_map(|other| Some((other, None, Some(cost(other)?)))));
    rows.sort_by_key(|(turn, ..)| *turn);
    let priced = rows.iter().any(|(_, _, cost)| cost.is_some());
    let most = turns.iter().map(|turn| stages(turn).iter().sum::<u64>()).max().unwrap_or(0).max(1);
    html! {
        @if turns.is_empty() { p.empty { (unanswered(record)) } } @else {
            ul.legend { @for (style, name) in STAGES.iter().zip(text::STAGES) {
                li { span.key.(*style) aria-hidden="true" {} (name) }
            } }
        }
        @if !rows.is_empty() {
            table.waterfall {
                thead { tr {
                    th scope="col" { (text::TURN) }
                    th.wide scope="col" { span.hidden { (text::STAGES.join(", ")) } }
                    th.number scope="col" { (text::WAITED) }
                    @if priced { th.number scope="col" { (text::COST) } }
                } }
                tbody { @for (number, turn, cost) in &rows { tr {
                    @match turn {
                        Some(turn) => (waited(turn, most)),
                        None => {
                            th scope="row" { (number) }
                            td.wide { span.soft { (without_answer(record, *number)) } }
                            td.number { "–" }
                        }
                    }
                    @if priced { td.number { (cost.as_deref().unwrap_or("–")) } }
                } } }
            }
        }
    }
}

/// Why there is no answer in the whole call.
fn unanswered(record: &Record) -> &'static str {
    let asks = |event: &Event| match event {
        Event::CallerSpeaks | Event::Typed => true,
        Event::Said { speaker, .. } => speaker == "caller",
        _ => false,
    };
    if record.reason.label == Ending::killed().label {
        text::NOT_KNOWN
    } else if !record.entries.iter().any(|entry| asks(&entry.event)) {
        text::NOTHING_ASKED
    } else if record.reason.class == EndClass::Provider.label() {
        text::NO_TURNS
    } else {
        text::ENDED_FIRST
    }
}

/// Why one turn has no answer.
fn without_answer(record: &Record, turn: u64) -> &'static str {
    let last = record.turns.iter().all(|answered| answered.turn < turn);
    match turn {
        0 => text::GREETING,
        _ if last && record.reason.class != EndClass::Provider.label() => text::ENDED_BEFORE,
        _ => text::NO_ANSWER,
    }
}

fn waited(turn: &Turn, most: u64) -> Markup {
    let mut x = 0;
    let stages = stages(turn);
    let bars: Vec<_> = (0..stages.len())
        .map(|index| {
            let from = x;
            x += stages[index];
            (STAGES[index], stages[index], from)
        })
        .collect();
    let percent = |part: u64| places(part as f64 * 100.0 / most as f64);
    let told = text::STAGES.iter().zip(stages).map(|(name, took)| format!("{name} {took} ms")).collect::<Vec<_>>();
    html! {
        th scope="row" {
            (turn.turn) " " span.soft { (figures::offset(turn.at_ms)) }
        }
        td.wide {
            svg role="img" width="100%" height="16" {
                title { (told.join(", ")) }
                @for (style, took, from) in &bars {
                    rect.(*style) x={ (percent(*from)) "%" } width={ (percent(*took)) "%" } y="1" height="14" {}
                }
            }
        }
        td.number {
            (text::seconds(x))
            @if turn.tools { span.soft { (text::WITH_TOOLS) } }
            @if turn.filled { span.soft { (text::WITH_FILLER) } }
        }
    }
}

fn tools(record: &Record) -> Markup {
    let audits: Vec<_> = record
        .entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Tool { audit } => Some((entry.at_ms, audit)),
            _ => None,
        })
        .collect();
    html! {
        @if audits.is_empty() { p.empty { (text::NO_TOOLS) } } @else {
            ul.tools { @for (at, audit) in audits { li { (tool(&html! { (figures::offset(at)) }, audit)) } } }
        }
    }
}

/// A line of the audit log, folded.
pub fn tool(at: &Markup, audit: &Map<String, Value>) -> Markup {
    let text = |key: &str| audit.get(key).and_then(Value::as_str);
    let error = text("errorType");
    html! {
        details {
            summary {
                span.at { (at) }
                code { (text("toolId").unwrap_or("–")) }
                span.tag.normal[error.is_none()].provider[error.is_some()] {
                    (error.map_or_else(|| "ok".to_owned(), |error| error.to_lowercase().replace('_', " ")))
                }
                span.soft { (text::seconds(audit.get("duration").and_then(Value::as_u64).unwrap_or(0))) }
            }
            dl { @for (key, value) in audit { div { dt { (key) } dd { (shown(value)) } } } }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn usage(all: &[Used]) -> Markup {
    html! {
        @if all.is_empty() { p.empty { "–" } }
        @for used in all {
            dl.facts.used {
                div { dt { (text::PROVIDER) } dd { (used.provider) } }
                div { dt { (text::CONNECTED) } dd { (figures::duration(used.connected_seconds)) } }
                @if used.transcribed_seconds > 0.0 {
                    div { dt { (text::TRANSCRIBED) } dd { (figures::duration(used.transcribed_seconds)) } }
                }
                @for (kind, count) in &used.tokens {
                    div { dt { (text::TOKENS) ", " (kind.replace('_', " ")) } dd { (count) } }
                }
                @if let Some(cost) = &used.cost {
                    div { dt { (text::COST) } dd {
                        (figures::money(cost.amount, &cost.currency)) " " span.soft { "(" (cost.price_date) ")" }
                    } }
                    @if !cost.unpriced.is_empty() {
                        div { dt { (text::UNPRICED) } dd { (cost.unpriced.join(", ").replace('_', " ")) } }
                    }
                }
            }
        }
    }
}

async fn delete(State(app): State<App>, who: Who, Id(id): Id) -> Result<Response, Response> {
    remove(&app, &who, id).await?;
    Ok(Redirect::to("/history").into_response())
}
