//! *History*: which calls there were, found by when, who, why and what was said.

use super::{
    figures,
    plot::{Bar, Plot},
    shell, text,
};
use crate::{
    call::EndReason,
    http::{
        api::{Filter, Format, Params, private, search, time, unread},
        login::{Door, Role, Who},
        routes::Routes,
        site::App,
    },
    records::{Ending, Hour, NOT_NORMAL, Reader, Row},
    wall_clock,
};
use axum::{
    extract::State,
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Hours and days of the two plots.
const HOURS: usize = 72;
const DAYS: i32 = 30;
const HOUR: SignedDuration = SignedDuration::from_hours(1);

pub fn add(routes: &mut Routes) {
    routes.page(Method::GET, "/history", Door::Page(Role::Viewer), page);
}

async fn page(State(app): State<App>, who: Who, Params(filter): Params<Filter>) -> Result<Response, Response> {
    let Some(reader) = &app.history else { return Ok(no_records(&who).into_response()) };
    let found = match search(&who, &filter) {
        Ok(search) => {
            let limit = search.limit;
            let rows = reader.find(search).await.map_err(|error| unread(&error))?;
            let next = rows.last().filter(|_| rows.len() == limit).map(|last| last.row);
            Ok((rows.into_iter().map(|row| private::row(&who, row)).collect::<Vec<_>>(), next))
        }
        Err((StatusCode::FORBIDDEN, why)) => return Ok(shell::refusal(&who, StatusCode::FORBIDDEN, &why)),
        Err(wrong) => Err(wrong),
    };
    let status = found.as_ref().map_or_else(|(status, _)| *status, |_| StatusCode::OK);
    let plots = plots(reader).await.map_err(|error| unread(&error))?;
    let main = html! {
        h1 { (text::HISTORY) }
        (plots)
        (form(&app, &who, &filter))
        @match &found {
            Ok((rows, next)) => { (list(&who, &filter, rows, *next)) }
            Err((_, why)) => { p.notice.bad role="alert" { (text::sentence(why)) } }
        }
    };
    Ok((status, shell::page(&who, "/history", text::HISTORY, &main)).into_response())
}

fn no_records(who: &Who) -> Markup {
    let main = html! {
        h1 { (text::HISTORY) }
        div.empty {
            h2 { (text::NO_RECORDS) }
            p { (text::NO_RECORDS_HELP) }
            pre { code { "records:\n  directory: records" } }
        }
    };
    shell::page(who, "/history", text::HISTORY, &main)
}

fn form(app: &App, who: &Who, filter: &Filter) -> Markup {
    let value = |text: &Option<String>| text.clone().unwrap_or_default();
    let field = |name: &str, label: &str, text: &Option<String>| {
        html! { label { span { (label) } input name=(name) value=(value(text)) maxlength="200"; } }
    };
    let moment = |name: &str, label: &str, text: &Option<String>| {
        html! { label { span { (label) } input type="datetime-local" name=(name) value=(in_a_form(text)); } }
    };
    html! {
        (quick_dates(filter))
        form.filter.card role="search" method="get" action="/history" {
            (moment("since", text::FROM, &filter.since))
            (moment("until", text::TO, &filter.until))
            (choice("context", text::CONTEXT, &filter.context, app.view.contexts().into_keys()))
            (choice("provider", text::PROVIDER, &filter.provider, app.view.providers().into_keys()))
            label { span { (text::REASON) } (reasons(filter.reason.as_deref())) }
            @if private::sees_all(who) {
                (field("number", text::NUMBER, &filter.number))
                (field("words", text::WORDS, &filter.words))
            }
            div.buttons { button { (text::SEARCH) } a.button.quiet href="/history" { (text::CLEAR) } }
        }
    }
}

/// Days that are often asked for, with what else is searched for.
fn quick_dates(filter: &Filter) -> Markup {
    let dates = [
        (text::TODAY, "today", None),
        (text::YESTERDAY, "yesterday", Some("today")),
        (text::LAST_DAY, "-24h", None),
        (text::LAST_WEEK, "-7d", None),
    ];
    let chosen = |since, until| filter.since.as_deref() == Some(since) && filter.until.as_deref() == until;
    let to = |since: &str, until: Option<&str>| {
        let filter = Filter { since: Some(since.to_owned()), until: until.map(str::to_owned), ..filter.clone() };
        link("/history", &filter, None, None)
    };
    html! {
        nav.dates aria-label=(text::WHEN) {
            @for (label, since, until) in dates {
                a.button.quiet href=(to(since, until)) aria-current=[chosen(since, until).then_some("true")] { (label) }
            }
        }
    }
}

/// A time as a browser's field takes it: words for it would be lost there.
fn in_a_form(text: &Option<String>) -> String {
    let Some(text) = text else { return String::new() };
    let at = time(text.trim()).map(|at| at.to_zoned(TimeZone::system()));
    at.map_or_else(|| text.clone(), |at| at.strftime("%Y-%m-%dT%H:%M").to_string())
}

/// A name of the configuration; one that an earlier configuration had can be typed.
fn choice(name: &str, label: &str, chosen: &Option<String>, known: impl Iterator<Item = String>) -> Markup {
    let list = format!("{name}s");
    html! {
        label {
            span { (label) }
            input name=(name) value=(chosen.as_deref().unwrap_or_default()) maxlength="200" list=(list);
        }
        datalist id=(list) { @for name in known { option value=(name) {} } }
    }
}

fn reasons(chosen: Option<&str>) -> Markup {
    let all = Ending::all();
    let classes: BTreeSet<_> = all.iter().map(|ending| &*ending.class).collect();
    html! {
        select name="reason" {
            option value="" { (text::ANY) }
            option value=(NOT_NORMAL) selected[chosen == Some(NOT_NORMAL)] { (text::NOT_AS_IT_SHOULD) }
            @for class in classes {
                optgroup label=(text::sentence(text::class(class))) {
                    option value=(class) selected[chosen == Some(class)] { (text::ANY) ": " (text::class(class)) }
                    @for Ending { label, .. } in all.iter().filter(|ending| ending.class == class) {
                        option value=(label) selected[chosen == Some(label.as_str())] { (label.replace('_', " ")) }
                    }
                }
            }
        }
    }
}

/// This page or another address with the same search.
fn link(path: &str, filter: &Filter, cursor: Option<i64>, format: Option<Format>) -> String {
    let filter = Filter { cursor: cursor.map(|row| row.to_string()), format, ..filter.clone() };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    // A filter is an object of texts and numbers.
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(&filter) {
        for (name, value) in fields {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !value.is_null() && !text.is_empty() {
                query.append_pair(&name, &text);
            }
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

fn list(who: &Who, filter: &Filter, rows: &[Row], next: Option<i64>) -> Markup {
    let export = |format| link("/api/v1/calls", filter, None, Some(format));
    html! {
        section aria-labelledby="calls" {
            div.title {
                h2 #calls { (text::CALLS) }
                p.soft { (text::EXPORT) ": " a href=(export(Format::Csv)) download { (text::CSV) } " · "
                    a href=(export(Format::Jsonl)) download { (text::JSON) } }
            }
            @if rows.is_empty() { p.empty { (text::NO_CALLS) } } @else { (table(who, rows)) }
            nav.pages aria-label=(text::CALLS) {
                @if filter.cursor.is_some() { a.button.quiet href=(link("/history", filter, None, None)) { (text::NEWEST) } }
                @if next.is_some() { a.button href=(link("/history", filter, next, None)) rel="next" { (text::NEXT) } }
            }
        }
    }
}

fn table(who: &Who, rows: &[Row]) -> Markup {
    let all = private::sees_all(who);
    html! {
        div.scroll tabindex="0" role="group" aria-labelledby="calls" {
            table.cards {
                thead { tr {
                    th scope="col" { (text::BEGAN) }
                    @if all { th scope="col" { (text::CALLER) } th scope="col" { (text::DIALLED) } }
                    th scope="col" { (text::CONTEXT) }
                    th scope="col" { (text::PROVIDER) }
                    th.number scope="col" { (text::LASTED) }
                    th scope="col" { (text::WHY) }
                    th.number scope="col" { (text::TURNS) }
                    th.number scope="col" { (text::TOOLS) }
                    th.number scope="col" { (text::COST) }
                } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { a href={ "/history/" (row.id) } { (figures::moment(row.began)) } }
                        @if all {
                            td data-head=(text::CALLER) { (figures::or_dash(row.caller_number.as_deref())) }
                            td data-head=(text::DIALLED) { (figures::or_dash(row.dialled_number.as_deref())) }
                        }
                        td data-head=(text::CONTEXT) { (row.context) }
                        td data-head=(text::PROVIDER) { (row.provider) }
                        td.number data-head=(text::LASTED) { (figures::duration(row.seconds)) }
                        td data-head=(text::WHY) { (figures::ending(&row.class, &row.reason, text::class(&row.class))) }
                        td.number data-head=(text::TURNS) { (row.turns) }
                        td.number data-head=(text::TOOLS) { (row.tool_calls) }
                        td.number data-head=(text::COST) { (figures::or_dash(price(row).as_deref())) }
                    }
                } }
            }
        }
    }
}

fn price(row: &Row) -> Option<String> {
    Some(figures::money(row.cost?, row.currency.as_deref()?))
}

async fn plots(reader: &Reader) -> Result<Markup, crate::records::ReadError> {
    let now = wall_clock::now();
    let since = now.checked_sub(SignedDuration::from_hours(24 * i64::from(DAYS))).unwrap_or(Timestamp::UNIX_EPOCH);
    let hours = reader.hours(since, now.saturating_add(HOUR).unwrap_or(now)).await?;
    Ok(html! { div.plots { (per_hour(&hours, now)) (per_day(&hours, now)) } })
}

fn per_hour(hours: &[Hour], now: Timestamp) -> Markup {
    let zone = TimeZone::system();
    let hour = HOUR.as_secs();
    let this = now.as_second().div_euclid(hour);
    let first = this - HOURS as i64 + 1;
    let mut calls: BTreeMap<i64, Vec<(&'static str, f64)>> = BTreeMap::new();
    for entry in hours {
        let parts = calls.entry(entry.began.as_second().div_euclid(hour)).or_default();
        parts.push((figures::class_name(&entry.class), entry.calls as f64));
    }
    let bars = (first..=this).map(|number| {
        let began = Timestamp::from_second(number * hour).unwrap_or(now).to_zoned(zone.clone());
        let label = (began.hour() % 12 == 0)
            .then(|| began.strftime(if began.hour() == 0 { "%a %d" } else { "%H:00" }).to_string());
        let parts = calls.remove(&number).unwrap_or_default();
        Bar { title: began.strftime("%a %d %b, %H:00").to_string(), label, parts }
    });
    let mut classes: Vec<_> = EndReason::all().into_iter().map(|reason| reason.class().label()).collect();
    classes.dedup();
    let mut known = BTreeSet::new();
    classes.retain(|class| known.insert(*class));
    let plot = Plot {
        id: "per-hour",
        title: text::PER_HOUR,
        about: text::LAST_3_DAYS,
        bars: bars.collect(),
        show: &|calls| text::count(calls),
        legend: classes.into_iter().map(|class| (figures::class_name(class), text::class(class))).collect(),
        heads: [text::HOUR, text::CALLS],
        nothing: text::NOTHING_YET,
    };
    plot.draw()
}

/// In the currency that most calls have a price in.
fn per_day(hours: &[Hour], now: Timestamp) -> Markup {
    let zone = TimeZone::system();
    let mut currencies: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in hours {
        if let Some(currency) = &entry.currency {
            *currencies.entry(currency).or_default() += entry.calls;
        }
    }
    let currency = currencies.into_iter().max_by_key(|(_, calls)| *calls).map_or("", |(currency, _)| currency);
    let mut days: BTreeMap<Date, f64> = BTreeMap::new();
    for entry in hours.iter().filter(|entry| entry.currency.as_deref() == Some(currency)) {
        *days.entry(entry.began.to_zoned(zone.clone()).date()).or_default() += entry.cost.unwrap_or_default();
    }
    let today = now.to_zoned(zone).date();
    let bars = (0..DAYS).rev().filter_map(|age| {
        let day = today.checked_sub(jiff::Span::new().days(age)).ok()?;
        let label = (age % 7 == 6).then(|| day.strftime("%d %b").to_string());
        let parts = days.get(&day).map(|cost| vec![("money", *cost)]).unwrap_or_default();
        Some(Bar { title: day.strftime("%a %d %b").to_string(), label, parts })
    });
    let plot = Plot {
        id: "per-day",
        title: text::PER_DAY,
        about: text::LAST_30_DAYS,
        bars: bars.collect(),
        show: &|cost| figures::money(cost, currency),
        legend: Vec::new(),
        heads: [text::DAY, text::COST],
        nothing: text::NO_PRICE,
    };
    plot.draw()
}
