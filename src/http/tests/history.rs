//! Calls that have ended, out of a real archive.

use super::{
    access::{Desk, Login},
    waveform::{desk_with_sound, waveform_of},
    *,
};
use crate::records::{Archive as _, Ending, Record, Sqlite, Turn, TurnUsed};
use serde_json::Value;
use std::collections::BTreeSet;

pub const WORDS: &str = "Zanzibar and nowhere else";
const NUMBER: &str = "+15550199";
/// Number of another party, who has taken the caller's place.
const PARTY: &str = "+15550123";

pub fn record(number: u32) -> Record {
    let said = |speaker: &str, text: &str| Event::Said { speaker: speaker.into(), text: text.into() };
    let Value::Object(audit) = json!({ "toolId": "hangup_call", "duration": 120, "errorType": "TIMEOUT" }) else {
        unreachable!("an object was written")
    };
    let events = [
        Event::Answered,
        Event::AgentSpeaks,
        said("agent", "<script>alert(1)</script>"),
        Event::CallerSpeaks,
        Event::BargeIn { heard_ms: 640 },
        said("caller", WORDS),
        Event::CallerFinished,
        Event::FalseAlarm { why: "backchannel".into() },
        Event::Tool { audit },
        Event::PartyChanged { number: Some(PARTY.into()), name: Some("Grace Hopper".into()) },
        Event::PartyKnown { number: Some(PARTY.into()), name: Some("Grace Hopper".into()) },
    ];
    let began: jiff::Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
    Record {
        id: CallId::random(),
        began: began + jiff::SignedDuration::from_mins(i64::from(number)),
        seconds: 30.0,
        direction: Direction::Inbound,
        caller_number: Some(NUMBER.into()),
        caller_name: Some("Ada Byron".into()),
        dialled_number: Some("=7123".into()),
        campaign_id: None,
        lead_id: None,
        context: "front".into(),
        provider: "main".into(),
        generation: 1,
        transport: "rtp".into(),
        format: "ulaw".into(),
        reason: Ending::from(EndReason::AgentSilent),
        counts: Counts::default(),
        turns: vec![Turn {
            at_ms: 4_000,
            turn: 1,
            provider: "main".into(),
            endpointing_ms: 500,
            thinking_ms: 300,
            speaking_ms: 150,
            playout_ms: 50,
            tools: true,
            filled: false,
        }],
        entries: events.into_iter().zip(0..).map(|(event, at)| Entry { at_ms: at * 1_000, event }).collect(),
        left_out: 0,
        recording: None,
        usage: ended(EndReason::AgentSilent).usage,
        turn_usage: vec![in_turn(0, 0.0111), in_turn(1, 0.0042), in_turn(2, 0.0039)],
    }
}

fn in_turn(turn: u64, amount: f64) -> TurnUsed {
    let mut used = ended(EndReason::AgentSilent).usage.remove(0);
    used.cost.iter_mut().for_each(|cost| cost.amount = amount);
    TurnUsed { turn, used }
}

fn desk_with(calls: u32) -> (Desk, Vec<Record>) {
    let desk = Desk::new();
    let records: Vec<Record> = (0..calls).map(record).collect();
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(&records).unwrap();
    (desk, records)
}

pub async fn get(desk: &Desk, login: &Login, path: &str) -> Answer {
    ask(&desk.router, Method::GET, path, &[("cookie", &login.cookie)]).await
}

#[tokio::test]
async fn calls_are_listed_page_by_page_until_there_are_no_more() {
    let (desk, records) = desk_with(5);
    let login = desk.log_in(Role::Operator).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&desk, &login, &format!("/api/v1/calls?limit=2&cursor={cursor}")).await.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2 && items.iter().all(|item| item["caller_number"] == NUMBER), "{page}");
        seen.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = next.to_owned();
    }
    assert_eq!(seen, records.iter().rev().map(|record| record.id.to_string()).collect::<Vec<_>>());
    let found = get(&desk, &login, "/api/v1/calls?words=zanzibar&number=0199&since=2026-11-20T10:03:00Z").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn exports_hold_all_of_them_and_nothing_that_a_spreadsheet_would_run() {
    let (desk, records) = desk_with(450);
    let login = desk.log_in(Role::Operator).await;
    let csv = get(&desk, &login, "/api/v1/calls?format=csv&limit=10").await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    let mut table = csv::Reader::from_reader(csv.text.as_bytes());
    let rows: Vec<csv::StringRecord> = table.records().collect::<Result<_, _>>().unwrap();
    let ids: BTreeSet<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    assert_eq!((rows.len(), ids.len()), (450, 450), "each once, however they are read");
    assert!(csv.text.contains(",'=7123,") && csv.text.contains(&format!(",{NUMBER},")), "{}", &csv.text[..400]);
    let lines = get(&desk, &login, "/api/v1/calls?format=jsonl&since=2026-11-20T17:00:00Z").await.text;
    let first: Record = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), first.id), (30, records[449].id));
}

/// The figures of the page's plots.
#[tokio::test]
async fn calls_and_costs_are_told_by_the_hour() {
    let (desk, _) = desk_with(90);
    let login = desk.log_in(Role::Viewer).await;
    let hours = "/api/v1/calls/hours?since=2026-11-20T10:30:00Z&until=2026-11-20T12:00:00Z";
    let told = get(&desk, &login, hours).await.json();
    let items = told["items"].as_array().unwrap();
    let calls: Vec<_> = items.iter().map(|hour| (hour["began"].as_str().unwrap(), hour["calls"].as_u64())).collect();
    assert_eq!(calls, [("2026-11-20T10:00:00Z", Some(60)), ("2026-11-20T11:00:00Z", Some(30))], "the first hour whole");
    assert_eq!((&items[0]["class"], &items[0]["seconds"]), (&"provider".into(), &1_800.0.into()), "{told}");
    assert!(items[0]["cost"].is_number() && items[0]["currency"].is_string(), "{told}");
    for (wrong, why) in [("since=now", "since: expected a day"), ("since=2020-01-01", "92 days"), ("hours=9", "hours")]
    {
        let refused = get(&desk, &login, &format!("/api/v1/calls/hours?{wrong}")).await;
        assert!(refused.status == StatusCode::BAD_REQUEST && refused.text.contains(why), "{wrong}: {}", refused.text);
    }
    assert_eq!(get(&desk, &login, "/api/v1/calls/hours").await.status, StatusCode::OK);
}

/// In no answer of whatever address is a word, a name or a number.
#[tokio::test]
async fn viewers_see_figures_and_nothing_private() {
    let (desk, records) = desk_with(3);
    let id = records[0].id;
    let viewer = desk.log_in(Role::Viewer).await;
    for path in [
        "/history".into(),
        format!("/history/{id}"),
        "/api/v1/calls".into(),
        "/api/v1/calls?format=csv".into(),
        "/api/v1/calls?format=jsonl".into(),
        format!("/api/v1/calls/{id}"),
    ] {
        let answer = get(&desk, &viewer, &path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        for private in ["Zanzibar", NUMBER, PARTY, "Hopper", "7123", "Byron", "alert(1)"] {
            assert!(!answer.text.contains(private), "{private} at {path}");
        }
    }
    for path in ["/history?words=zanzibar", "/history?number=0199", "/api/v1/calls?number=0199&format=csv"] {
        assert_eq!(get(&desk, &viewer, path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn one_call_is_told_with_its_axis_its_waterfall_its_tools_and_its_cost() {
    let (desk, records) = desk_with(1);
    let login = desk.log_in(Role::Operator).await;
    let page = get(&desk, &login, &format!("/history/{}", records[0].id)).await.text;
    for part in [
        "The agent gave no answer although the caller waited.",
        WORDS,
        "Ada Byron",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "The caller interrupts; 640 ms of the answer were heard.",
        // The caller spoke from the third second to the sixth of thirty.
        r#"<rect class="caller" x="10%" width="10%""#,
        r#"<circle class="mark barge-in" cx="13.33%""#,
        r#"<circle class="mark false-alarm""#,
        "thinking 300 ms",
        "1.0 s",
        "hangup_call",
        "0.0192 USD",
        "0.0042 USD",
        // What has no answer has its price all the same.
        r#"<tr><th scope="row">0</th><td class="wide"><span class="soft">the greeting</span></td><td class="number">–</td><td class="number">0.0111 USD</td></tr>"#,
        r#"<tr><th scope="row">2</th><td class="wide"><span class="soft">no answer of its own</span></td><td class="number">–</td><td class="number">0.0039 USD</td></tr>"#,
    ] {
        assert!(page.contains(part), "{part:?} is not on the page:\n{page}");
    }
    assert!(!page.contains("<script>alert"));
}

/// A browser shows a page the later for each shape on it.
#[tokio::test]
async fn hundreds_of_turns_are_drawn_as_one_shape_for_each_who_speaks() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Viewer).await;
    let turn = |turn: u64| [(turn, Event::CallerSpeaks), (turn + 1, Event::CallerFinished)];
    let entries = |turns: u64| (0..turns).map(|number| number * 5_000).flat_map(turn);
    let call = |number: u32, turns: u64| Record {
        seconds: 3_600.0,
        entries: entries(turns).map(|(at_ms, event)| Entry { at_ms, event }).collect(),
        ..record(number)
    };
    let (few, many) = (call(0, 200), call(1, 201));
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(&[few.clone(), many.clone()]).unwrap();
    let page = async |record: &Record| get(&desk, &login, &format!("/history/{}", record.id)).await.text;
    let page_of_few = page(&few).await;
    assert_eq!(page_of_few.matches(r#"<rect class="caller""#).count(), 200);
    let page_of_many = page(&many).await;
    assert!(!page_of_many.contains(r#"<rect class="caller""#));
    let (_, shape) = page_of_many.split_once(r#"<path class="caller" d=""#).expect("a shape of what the caller said");
    assert_eq!(shape.split('"').next().unwrap().matches('M').count(), 201);
}

/// Silence of the agent's is told where there was something to answer, and nowhere else.
#[tokio::test]
async fn of_a_call_without_an_answer_it_is_said_what_is_true() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Viewer).await;
    let asked = [Event::Answered, Event::CallerSpeaks, Event::CallerFinished];
    let quiet = [Event::Answered, Event::AgentSpeaks, Event::AgentFinished];
    let cases = [
        (&asked[..], EndReason::AgentSilent.into(), "The agent answered nothing."),
        (&asked, EndReason::CallerHungUp.into(), "The call ended before the agent had answered."),
        (&quiet, EndReason::CallerHungUp.into(), "The caller said nothing that could be answered."),
        (&[], Ending::killed(), "How it went is not known."),
    ];
    let case = |(number, (events, reason, _)): (usize, &(&[Event], Ending, &str))| {
        let entries = events.iter().map(|event| Entry { at_ms: 0, event: event.clone() }).collect();
        Record { turns: vec![], turn_usage: vec![], reason: reason.clone(), entries, ..record(number as u32) }
    };
    let records: Vec<Record> = cases.iter().enumerate().map(case).collect();
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(&records).unwrap();
    for (record, (_, reason, told)) in records.iter().zip(&cases) {
        let page = get(&desk, &login, &format!("/history/{}", record.id)).await.text;
        assert!(page.contains(&format!(r#"<p class="empty">{told}</p>"#)), "{}: {page}", reason.label);
        let others = cases.iter().filter(|(_, _, other)| other != told);
        assert!(others.into_iter().all(|(_, _, other)| !page.contains(other)), "{}: {page}", reason.label);
    }
}

/// Each of the table of endings, also the one that a killed engine left behind.
#[tokio::test]
async fn every_reason_for_an_end_can_be_searched_for() {
    let desk = Desk::new();
    let killed = Record { reason: Ending::killed(), ..record(0) };
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(&[killed.clone(), record(1)]).unwrap();
    let login = desk.log_in(Role::Viewer).await;
    let page = get(&desk, &login, "/history?reason=engine_killed").await.text;
    assert!(page.contains(r#"<option value="engine_killed" selected>engine killed</option>"#), "{page}");
    assert_eq!(page.matches("href=\"/history/").count(), 1, "{page}");
    assert!(page.contains(&format!("/history/{}", killed.id)));
    for reason in EndReason::all() {
        assert!(page.contains(&format!(r#"<option value="{}">"#, reason.label())), "{reason:?}");
    }
}

/// A typo is not to read as "no such calls".
#[tokio::test]
async fn a_reason_that_there_is_not_is_refused_and_the_document_lists_those_there_are() {
    let (desk, _) = desk_with(1);
    let login = desk.log_in(Role::Viewer).await;
    for path in
        ["/api/v1/calls?reason=engin_fault", "/api/v1/calls?reason=Normal&format=csv", "/history?reason=engin_fault"]
    {
        let refused = get(&desk, &login, path).await;
        assert!(refused.status == StatusCode::BAD_REQUEST && refused.text.contains("engine_fault"), "{}", refused.text);
    }
    let document = get(&desk, &login, "/api/v1/openapi.json").await.json();
    let parameters = document["paths"]["/api/v1/calls"]["get"]["parameters"].as_array().unwrap().clone();
    let reason = parameters.iter().find(|parameter| parameter["name"] == "reason").unwrap();
    let listed = reason["schema"]["enum"].as_array().unwrap();
    assert_eq!(listed.len(), crate::records::reasons().len(), "{reason}");
    for listed in listed.iter().map(|listed| listed.as_str().unwrap()) {
        let answer = get(&desk, &login, &format!("/api/v1/calls?reason={listed}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{listed}");
    }
}

/// "Which calls of yesterday did not go as they should?" is one question.
#[tokio::test]
async fn the_calls_of_a_day_that_went_wrong_are_one_search() {
    let desk = Desk::new();
    let zone = jiff::tz::TimeZone::system();
    let noon = |days: i64| {
        let day = jiff::Zoned::now().with_time_zone(zone.clone()).date() - jiff::Span::new().days(days);
        day.at(12, 0, 0, 0).to_zoned(zone.clone()).unwrap().timestamp()
    };
    let call = |days: i64, reason: EndReason| Record { began: noon(days), reason: reason.into(), ..record(0) };
    let (wrong, right, older) =
        (call(1, EndReason::NoInput), call(1, EndReason::CallerHungUp), call(2, EndReason::NoInput));
    let records = [wrong.clone(), right, older];
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap().put(&records).unwrap();
    let login = desk.log_in(Role::Viewer).await;
    let search = "since=yesterday&until=today&reason=not_normal";
    let found = get(&desk, &login, &format!("/api/v1/calls?{search}")).await.json();
    let ids: Vec<_> = found["items"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [wrong.id.to_string()]);
    let page = get(&desk, &login, &format!("/history?{search}")).await.text;
    let yesterday = noon(1).to_zoned(zone).strftime("%Y-%m-%dT00:00").to_string();
    for part in [
        // The words of the link are a date in the field, so that the next search has them too.
        &*format!(r#"<input type="datetime-local" name="since" value="{yesterday}">"#),
        r#"<option value="not_normal" selected>Not as it should</option>"#,
        r#"href="/history?since=today&amp;reason=not_normal""#,
        r#"<a class="button quiet" href="/history?since=yesterday&amp;until=today&amp;reason=not_normal" aria-current="true">"#,
        r#"<datalist id="contexts"><option value="sales">"#,
        r#"<datalist id="providers"><option value="#,
        "Times are in the engine's zone: ",
    ] {
        assert!(page.contains(part), "{part} is not on the page:\n{page}");
    }
}

#[tokio::test]
async fn a_recording_is_played_from_any_point() {
    let (desk, record) = desk_with_sound();
    let login = desk.log_in(Role::Operator).await;
    let path = format!("/api/v1/calls/{}/recording", record.id);
    let whole = get(&desk, &login, &path).await;
    assert_eq!((whole.status, &whole.headers["content-type"]), (StatusCode::OK, &"audio/wav".parse().unwrap()));
    assert_eq!(whole.headers["content-length"], "160044");
    assert_eq!(whole.headers["cache-control"], "no-store");
    let part = [("cookie", &*login.cookie), ("range", "bytes=160040-")];
    let part = ask(&desk.router, Method::GET, &path, &part).await;
    assert_eq!((part.status, part.text.as_bytes()), (StatusCode::PARTIAL_CONTENT, &[0, 0x20, 0, 0][..]));
    let beyond = [("cookie", &*login.cookie), ("range", "bytes=999999-")];
    assert_eq!(ask(&desk.router, Method::GET, &path, &beyond).await.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let page = get(&desk, &login, &format!("/history/{}", record.id)).await.text;
    assert!(page.contains(&format!("src=\"{path}\"")), "{page}");
    let none = get(&desk, &login, &format!("/api/v1/calls/{}/recording", CallId::random())).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_operator_listens_to_a_running_call_until_it_ends() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let live = get(&desk, &login, "/api/v1/live").await.json();
    let id = live["active"][0]["id"].as_str().unwrap();
    assert!(get(&desk, &login, &format!("/live/{id}")).await.text.contains(&format!("/api/v1/live/{id}/audio")));
    let heard = get(&desk, &login, &format!("/api/v1/live/{id}/audio")).await;
    assert_eq!((heard.status, &*heard.text), (StatusCode::OK, "RIFFand so on"));
    assert_eq!(heard.headers["content-type"], "audio/wav");
    let nobody = get(&desk, &login, &format!("/api/v1/live/{}/audio", CallId::random())).await;
    assert_eq!(nobody.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_operator_sends_a_caller_to_a_destination_of_the_configuration_and_nowhere_else() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let live = get(&desk, &login, "/api/v1/live").await.json();
    let id = live["active"][0]["id"].as_str().unwrap().to_owned();
    // Whether they can come back is told where it is decided.
    let page = get(&desk, &login, &format!("/live/{id}")).await.text;
    assert!(
        page.contains("people: Those who know better (in the dialplan, for good)<") && page.contains("desk: The desk<")
    );
    let path = format!("/api/v1/live/{id}/transfer");
    assert_eq!(
        get(&desk, &login, &path).await.json(),
        json!({ "people": "Those who know better", "desk": "The desk" })
    );
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf), ("content-type", "application/json")];
    for (path, body, status) in [
        (&path, r#"{"destination":"people"}"#, StatusCode::ACCEPTED),
        (&path, r#"{"destination":"+15550100"}"#, StatusCode::UNPROCESSABLE_ENTITY),
        (&format!("/api/v1/live/{}/transfer", CallId::random()), r#"{"destination":"people"}"#, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(desk.post(path, &headers, body.into()).await.status, status, "{body}");
    }
    let form = [("cookie", &*login.cookie), ("content-type", "application/x-www-form-urlencoded")];
    let body = format!("csrf={}&destination=people", login.csrf);
    assert_eq!(desk.post(&format!("/live/{id}/transfer"), &form, body).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn what_is_written_to_nobody_is_told_why() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let live = get(&desk, &login, "/api/v1/live").await.json();
    let running = format!("/api/v1/live/{}/text", live["active"][0]["id"].as_str().unwrap());
    let gone = format!("/api/v1/live/{}/text", CallId::random());
    let long = json!({ "text": "a".repeat(2_001) }).to_string();
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf), ("content-type", "application/json")];
    for (path, body, status) in [
        ("/api/v1/conversations", r#"{"context":"nowhere"}"#, StatusCode::UNPROCESSABLE_ENTITY),
        (&running, r#"{"text":"Hello?"}"#, StatusCode::CONFLICT),
        (&running, r#"{"text":" "}"#, StatusCode::UNPROCESSABLE_ENTITY),
        (&running, &long, StatusCode::UNPROCESSABLE_ENTITY),
        (&gone, r#"{"text":"Hello?"}"#, StatusCode::NOT_FOUND),
    ] {
        assert_eq!(desk.post(path, &headers, body.to_owned()).await.status, status, "{path} {body:.40}");
    }
}

/// A voice is more private than words.
#[tokio::test]
async fn viewers_hear_nothing() {
    let (desk, record) = desk_with_sound();
    let viewer = desk.log_in(Role::Viewer).await;
    let path = format!("/api/v1/calls/{}/recording", record.id);
    assert_eq!(get(&desk, &viewer, &path).await.status, StatusCode::FORBIDDEN);
    let page = get(&desk, &viewer, &format!("/history/{}", record.id)).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.text.contains("<audio") && !page.text.contains("class=\"sound\""));
    assert_eq!(get(&desk, &viewer, &waveform_of(&record)).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_deleted_call_is_gone() {
    let (desk, records) = desk_with(2);
    let login = desk.log_in(Role::Admin).await;
    let path = format!("/api/v1/calls/{}", records[0].id);
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    for expected in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        assert_eq!(ask(&desk.router, Method::DELETE, &path, &headers).await.status, expected);
    }
    assert_eq!(get(&desk, &login, &path).await.status, StatusCode::NOT_FOUND);
    let form = [("cookie", &*login.cookie), ("content-type", "application/x-www-form-urlencoded")];
    let done = desk.post(&format!("/history/{}/delete", records[1].id), &form, format!("csrf={}", login.csrf)).await;
    assert_eq!(done.headers["location"], "/history");
    assert_eq!(get(&desk, &login, "/api/v1/calls").await.json()["items"], json!([]));
}

/// It is answered as one that has ended: nothing is there any more, and nothing will be.
#[tokio::test]
async fn the_deletion_of_a_call_that_stands_is_remembered() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Admin).await;
    let (id, spool) = (CallId::random(), desk.folder.path().join("spool"));
    std::fs::create_dir(&spool).unwrap();
    std::fs::write(spool.join(format!("000001763632800-{id}.begun")), "{}").unwrap();
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    let path = format!("/api/v1/calls/{id}");
    assert_eq!(ask(&desk.router, Method::DELETE, &path, &headers).await.status, StatusCode::NO_CONTENT);
    let left: Vec<_> = std::fs::read_dir(&spool).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, [format!("{id}.deleted").as_str()]);
}

#[tokio::test]
async fn an_archive_that_cannot_be_read_is_told_and_nothing_breaks() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    std::fs::write(desk.folder.path().join("calls.sqlite3"), "no database at all, and long enough to be one").unwrap();
    for path in ["/history", "/api/v1/calls", &format!("/api/v1/calls/{}", CallId::random())] {
        let answer = get(&desk, &login, path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.text);
    }
    let none = Desk::with(|site| site.history = None);
    let login = none.log_in(Role::Operator).await;
    assert!(get(&none, &login, "/history").await.text.contains("directory: records"));
    assert_eq!(get(&none, &login, "/api/v1/calls").await.status, StatusCode::NOT_FOUND);
}

/// Whoever writes does not wait for whoever reads, and the other way round.
#[tokio::test]
async fn a_writer_that_holds_the_archive_keeps_nobody_from_reading() {
    let (desk, records) = desk_with(2);
    let login = desk.log_in(Role::Operator).await;
    let other = rusqlite::Connection::open(desk.folder.path().join("calls.sqlite3")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM calls").unwrap();
    let page = get(&desk, &login, "/api/v1/calls").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), records.len());
}
