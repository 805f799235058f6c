//! Calls that have ended: search, export, one call, its deletion.

use super::{Id, Params, private, undrawn, unread};
use crate::{
    http::{
        login::{Door, Role, Who},
        problem,
        routes::{Content, Doc, Routes, schema},
        site::App,
    },
    records::{self, Hour, Reader, Record, Row, Search, Waveform},
    wall_clock,
};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tower_http::services::ServeFile;

/// A page of a list.
const LIMIT: usize = 50;
const LIMIT_MAX: usize = 1_000;
/// Calls that an export reads at once; between two, others have their turn.
const EXPORT_STEP: usize = 200;
/// Without a beginning, what the plots of the page show; and as much as one answer tells, some megabytes at most.
const HOURS_DAYS: i64 = 30;
const HOURS_DAYS_MAX: i64 = 92;
/// Longer texts are no search.
const TEXT_BYTES_MAX: usize = 200;

/// A time or nothing, for the API's document.
const TIME: &str = r"^(today|yesterday|-\d{1,5}[smhdw]|\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?)?$";

/// Which calls; what is not given, or empty, excludes nothing.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Calls that began at this time or later: `2026-11-20`, `2026-11-20T14:30`, `today`, `yesterday`
    /// (where the engine runs), `2026-11-20T14:30:00Z`, or `-24h`, so long ago.
    #[schemars(regex(pattern = TIME))]
    pub since: Option<String>,
    /// Calls that began before it.
    #[schemars(regex(pattern = TIME))]
    pub until: Option<String>,
    /// The context that had the call when it ended.
    #[schemars(length(max = 200))]
    pub context: Option<String>,
    /// The provider that had the call when it ended.
    #[schemars(length(max = 200))]
    pub provider: Option<String>,
    /// A reason's label, a class of reasons, or `not_normal`: every class but `normal`.
    #[schemars(schema_with = "reason")]
    pub reason: Option<String>,
    /// The caller's number or the one that was dialled, or the end of it. For operators.
    #[schemars(length(max = 200))]
    pub number: Option<String>,
    /// Words that were said in the call. For operators.
    #[schemars(length(max = 200))]
    pub words: Option<String>,
    /// Where the page before ended: its `next`.
    pub cursor: Option<String>,
    /// At most so many on a page.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// `json`: a page; `csv`: all of them, one call in a line; `jsonl`: all of them, one whole record in a line.
    pub format: Option<Format>,
}

fn reason(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": records::reasons() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Json,
    Csv,
    Jsonl,
}

/// From when to when calls are counted.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Span {
    /// Calls that began at this time or later, as in a search; without it, 30 days before `until`. The hour counts whole.
    #[schemars(regex(pattern = TIME))]
    pub since: Option<String>,
    /// Calls that began before it; without it, now. The hour counts whole.
    #[schemars(regex(pattern = TIME))]
    pub until: Option<String>,
}

/// Calls and costs by the hour.
#[derive(Serialize, JsonSchema)]
pub struct Hours {
    /// In order; one for each class of reasons and each currency that an hour has calls of.
    pub items: Vec<Hour>,
}

/// A page of a list of calls, the newest first.
#[derive(Serialize, JsonSchema)]
pub struct CallsPage {
    pub items: Vec<Row>,
    /// The next page's `cursor`; `null` on the last one.
    pub next: Option<String>,
}

pub fn add(routes: &mut Routes) {
    let page = Content::Either(schema::<CallsPage>, &["text/csv", "application/jsonl"]);
    let doc = Doc::new("Calls that have ended, the newest first. Viewers are told no numbers.")
        .query::<Filter>()
        .answer(200, "The calls.", page);
    routes.api(Method::GET, "/api/v1/calls", Door::Api(Role::Viewer), list, doc);
    let doc = Doc::new("How many calls began in each hour, how long they were, why they ended, and what they cost; of 92 days at most.")
        .query::<Span>()
        .answer(200, "The hours that have calls.", Content::Json(schema::<Hours>));
    routes.api(Method::GET, "/api/v1/calls/hours", Door::Api(Role::Viewer), hours, doc);
    let doc = Doc::new("Everything that is kept of a call. Viewers are told no words, names and numbers.").answer(
        200,
        "The record.",
        Content::Json(schema::<Record>),
    );
    routes.api(Method::GET, "/api/v1/calls/{id}", Door::Api(Role::Viewer), show, doc);
    let doc = Doc::new("The sound of a call, also of one that lasts: the caller on the left, the agent on the right.")
        .answer(200, "All of it.", Content::File("audio/wav"))
        .answer(206, "The part that the header Range asks for.", Content::File("audio/wav"))
        .answer(416, "The header Range asks for what is not there.", Content::Nothing);
    routes.api(Method::GET, "/api/v1/calls/{id}/recording", Door::Api(Role::Operator), recording, doc);
    let doc = Doc::new("How loud both sides of a recorded call were, as the page draws it.")
        .answer(200, "Peaks at equal distances over its length.", Content::Json(schema::<Loudness>))
        .refusal(422, "The recording is too long to be looked through, or not this engine's.");
    routes.api(Method::GET, "/api/v1/calls/{id}/waveform", Door::Api(Role::Operator), waveform, doc);
    let what =
        "Deletes everything that is kept of a call; of one that has not ended, also what would be kept when it does.";
    let doc = Doc::new(what).answer(204, "It is deleted.", Content::Nothing);
    routes.api(Method::DELETE, "/api/v1/calls/{id}", Door::Api(Role::Admin), delete, doc);
}

/// What a filter asks for, or what is wrong with it.
pub fn search(who: &Who, filter: &Filter) -> Result<Search, (StatusCode, String)> {
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    let texts = [
        ("context", given(&filter.context)),
        ("provider", given(&filter.provider)),
        ("reason", given(&filter.reason)),
        ("number", given(&filter.number)),
        ("words", given(&filter.words)),
    ];
    for (name, text) in &texts {
        if text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX || text.contains('\0')) {
            return Err(bad(format!("{name} is no text of at most {TEXT_BYTES_MAX} bytes")));
        }
    }
    let [context, provider, reason, number, words] = texts.map(|(_, text)| text);
    if let Some(Err(why)) = reason.as_deref().map(records::reason) {
        return Err(bad(format!("reason: {why}")));
    }
    if (number.is_some() || words.is_some()) && !private::sees_all(who) {
        return Err((StatusCode::FORBIDDEN, "only operators may search for numbers and words".into()));
    }
    let after = given(&filter.cursor).map(|cursor| cursor.parse().ok().filter(|row: &i64| *row > 0));
    let limit = filter.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(bad(format!("limit is a number from 1 to {LIMIT_MAX}")));
    }
    Ok(Search {
        id: None,
        since: moment("since", &filter.since)?,
        until: moment("until", &filter.until)?,
        context,
        provider,
        reason,
        number,
        words,
        after: match after {
            Some(None) => return Err(bad("cursor is none that an earlier page gave".into())),
            known => known.flatten(),
        },
        limit,
    })
}

fn given(text: &Option<String>) -> Option<String> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn moment(name: &str, text: &Option<String>) -> Result<Option<Timestamp>, (StatusCode, String)> {
    let bad = || (StatusCode::BAD_REQUEST, format!("{name}: expected {}", records::TIMES));
    given(text).map(|text| time(&text).ok_or_else(bad)).transpose()
}

/// A time as it is written in a search, where the engine runs.
pub fn time(text: &str) -> Option<Timestamp> {
    records::time(text, &wall_clock::now().to_zoned(TimeZone::system()))
}

fn no_records() -> Response {
    problem(StatusCode::NOT_FOUND, "no records are kept: the configuration has no section records")
}

async fn list(State(app): State<App>, who: Who, Params(filter): Params<Filter>) -> Result<Response, Response> {
    let search = search(&who, &filter).map_err(|(status, why)| problem(status, &why))?;
    let reader = app.history.clone().ok_or_else(no_records)?;
    match filter.format.unwrap_or_default() {
        Format::Json => {
            let limit = search.limit;
            let rows = reader.find(search).await.map_err(|error| unread(&error))?;
            let next = rows.last().filter(|_| rows.len() == limit).map(|last| last.row.to_string());
            let items = rows.into_iter().map(|row| private::row(&who, row)).collect();
            Ok(Json(CallsPage { items, next }).into_response())
        }
        format => Ok(export(reader, who, search, format)),
    }
}

/// All of them, read as fast as they are taken.
fn export(reader: Reader, who: Who, search: Search, format: Format) -> Response {
    let (kind, name) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"calls.csv\""),
        _ => ("application/jsonl", "attachment; filename=\"calls.jsonl\""),
    };
    let begin = (Search { limit: EXPORT_STEP, ..search }, true, false);
    let pieces = stream::try_unfold((reader, who, begin), move |(reader, who, (search, first, done))| async move {
        if done {
            return Ok::<_, std::io::Error>(None);
        }
        let rows = reader.find(search.clone()).await.map_err(std::io::Error::other)?;
        let last = rows.len() < EXPORT_STEP;
        let after = rows.last().map(|row| row.row).or(search.after);
        let text = match format {
            Format::Csv => csv(&who, rows, first)?,
            _ => lines(&reader, &who, rows).await?,
        };
        Ok(Some((Bytes::from(text), (reader, who, (Search { after, ..search }, false, last)))))
    });
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, Body::from_stream(pieces)).into_response()
}

fn csv(who: &Who, rows: Vec<Row>, headers: bool) -> std::io::Result<Vec<u8>> {
    let mut table = csv::WriterBuilder::new().has_headers(headers).from_writer(Vec::new());
    for row in rows {
        table.serialize(private::row(who, row).for_spreadsheets()).map_err(std::io::Error::other)?;
    }
    table.into_inner().map_err(|error| std::io::Error::other(error.to_string()))
}

async fn lines(reader: &Reader, who: &Who, rows: Vec<Row>) -> std::io::Result<Vec<u8>> {
    let ids = rows.iter().map(|row| row.id).collect();
    let mut text = Vec::new();
    for record in reader.all(ids).await.map_err(std::io::Error::other)? {
        serde_json::to_writer(&mut text, &private::record(who, record))?;
        text.push(b'\n');
    }
    Ok(text)
}

async fn hours(State(app): State<App>, Params(span): Params<Span>) -> Result<Json<Hours>, Response> {
    let told = |(status, why): (StatusCode, String)| problem(status, &why);
    let until = moment("until", &span.until).map_err(told)?.unwrap_or_else(wall_clock::now);
    let days = |days: i64| until.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(Timestamp::MIN);
    let since = moment("since", &span.since).map_err(told)?.unwrap_or_else(|| days(HOURS_DAYS));
    if since < days(HOURS_DAYS_MAX) {
        let why = format!("from since to until are more than {HOURS_DAYS_MAX} days: ask for them in parts");
        return Err(problem(StatusCode::BAD_REQUEST, &why));
    }
    let reader = app.history.as_ref().ok_or_else(no_records)?;
    let items = reader.hours(since, until).await.map_err(|error| unread(&error))?;
    Ok(Json(Hours { items }))
}

async fn show(State(app): State<App>, who: Who, Id(id): Id) -> Result<Json<Record>, Response> {
    let record = app.history.as_ref().ok_or_else(no_records)?.get(id).await.map_err(|error| unread(&error))?;
    let record = record.ok_or_else(|| problem(StatusCode::NOT_FOUND, "no record of this call is kept"))?;
    Ok(Json(private::record(&who, record)))
}

/// Parts of it are answered as well, so that a browser can begin anywhere.
async fn recording(State(app): State<App>, Id(id): Id, request: Request) -> Result<Response, Response> {
    let file = app.history.as_ref().ok_or_else(no_records)?.recording(id);
    match ServeFile::new(file).try_call(request).await {
        Ok(answer) if answer.status() == StatusCode::NOT_FOUND => {
            Err(problem(StatusCode::NOT_FOUND, "no recording of this call is kept"))
        }
        Ok(answer) => Ok(answer.map(Body::new)),
        Err(error) => {
            tracing::warn!(%error, "a recording could not be read");
            Err(problem(StatusCode::SERVICE_UNAVAILABLE, "the recording cannot be read; the log says why"))
        }
    }
}

/// Both sides have as many.
#[derive(Serialize, JsonSchema)]
struct Loudness {
    /// Of the recording.
    seconds: f64,
    /// From 0 to 32768, the loudest sample there is.
    caller: Vec<u16>,
    agent: Vec<u16>,
}

async fn waveform(State(app): State<App>, Id(id): Id) -> Result<Json<Loudness>, Response> {
    let reader = app.history.as_ref().ok_or_else(no_records)?;
    let Waveform { seconds, caller, agent } = reader.waveform(id).await.map_err(|why| undrawn(&why))?;
    Ok(Json(Loudness { seconds, caller, agent }))
}

async fn delete(State(app): State<App>, who: Who, Id(id): Id) -> Result<StatusCode, Response> {
    if !remove(&app, &who, id).await? {
        return Err(problem(StatusCode::NOT_FOUND, "no record of this call is kept"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes on behalf of somebody, who is named in the log.
pub async fn remove(app: &App, who: &Who, id: crate::facts::CallId) -> Result<bool, Response> {
    let deleted = app.history.as_ref().ok_or_else(no_records)?.delete(id).await.map_err(|error| unread(&error))?;
    if deleted.found {
        let (stands, lingers) = (deleted.stands, deleted.lingers);
        tracing::info!(call_id = %id, account = who.name, stands, lingers, "the record of a call was deleted");
    }
    Ok(deleted.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_takes_the_times_that_are_taken() {
        let documented = regex::Regex::new(TIME).unwrap();
        let at = "2026-11-20T14:30";
        for zone in ["", "Z", "+05:30", ":07", ":07.123Z", ":07-03:00"] {
            let text = format!("{at}{zone}");
            assert!(documented.is_match(&text) && time(&text).is_some(), "{text}");
        }
        for text in ["today", "yesterday", "-24h", "-7d"] {
            assert!(documented.is_match(text) && time(text).is_some(), "{text}");
        }
        assert!(documented.is_match("2026-11-20") && documented.is_match("") && given(&Some(String::new())).is_none());
        for text in ["tomorrow", "24h", "2026-13-20", "2026-11-20T25:00", "14:30", "2026-11-20Z", "0", "2026-11-20T"] {
            assert!(!documented.is_match(text) && time(text).is_none(), "{text}");
        }
    }
}
