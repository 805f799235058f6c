//! What goes on as long as a call does, for each role; and that nothing of it is left behind.

use super::{
    access::{Desk, Login},
    *,
};
use crate::{records::Sqlite, telemetry::LogCapture};
use futures_util::StreamExt as _;
use serde_json::Value;
use std::collections::BTreeSet;
use tokio::time::timeout;

/// Longer than any pause of a stream that goes on.
const MOMENT: Duration = Duration::from_secs(60);

/// Somebody's open stream.
struct Open {
    body: axum::body::BodyDataStream,
    /// What came and was not read.
    rest: String,
}

/// `Err`: it was refused.
async fn open(desk: &Desk, login: &Login, path: &str, headers: &[(&str, &str)]) -> Result<Open, StatusCode> {
    let mut request = Request::get(path).header("host", "127.0.0.1:15000").header("cookie", &*login.cookie);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = desk.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    match answer.status() {
        StatusCode::OK => Ok(Open { body: answer.into_body().into_data_stream(), rest: String::new() }),
        refused => Err(refused),
    }
}

impl Open {
    /// The next piece as it came; `None`: it has ended.
    async fn piece(&mut self) -> Option<Bytes> {
        let piece = timeout(MOMENT, self.body.next()).await.expect("something comes, or it ends");
        piece.map(|piece| piece.unwrap())
    }

    /// The next event with its name and its data; `None`: it has ended.
    async fn event(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                // The others keep the connection alive.
                let Some(name) = field("event:") else { continue };
                return Some((name.to_owned(), serde_json::from_str(field("data:").unwrap()).unwrap()));
            }
            let piece = self.piece().await?;
            self.rest.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

/// First event of a stream.
pub async fn first(desk: &Desk, login: &Login, path: &str) -> String {
    open(desk, login, path, &[]).await.unwrap().event().await.unwrap().1.to_string()
}

/// A stream that a program watches by a token ends when the token is taken back.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_token_is_taken_back() {
    let desk = Desk::new();
    let token = format!("Bearer {}", desk.accounts.add_token("wallboard", Role::Viewer, None).unwrap());
    let nobody = Login { cookie: String::new(), csrf: String::new() };
    let mut stream = open(&desk, &nobody, "/api/v1/events", &[("authorization", &token)]).await.unwrap();
    stream.event().await.unwrap();
    desk.accounts.remove_token("wallboard").unwrap();
    let end = timeout(MOMENT, stream.event()).await;
    assert!(matches!(end, Ok(None)), "it goes on: {end:?}");
}

/// The one call that runs.
fn running(desk: &Desk) -> CallId {
    desk.engine.calls.active[0].call.id
}

fn then(desk: &Desk, what: fn(&mut CallsView)) {
    *desk.engine.since.lock().unwrap() = what;
}

/// Operators read the words; viewers that something happens, who speaks, and why it ended.
#[tokio::test(start_paused = true)]
async fn a_running_call_tells_its_facts_its_story_and_its_end_and_words_to_operators_alone() {
    for (role, entries) in [(Role::Viewer, 1), (Role::Operator, 2)] {
        let desk = Desk::new();
        let login = desk.log_in(role).await;
        let id = running(&desk);
        let mut stream = open(&desk, &login, &format!("/api/v1/live/{id}/events"), &[]).await.unwrap();
        let (name, facts) = stream.event().await.unwrap();
        assert_eq!((&*name, &facts["floor"], &facts["counts"]["agent_turns"]), ("facts", &json!("agent"), &json!(3)));
        assert!(facts.get("levels").is_none(), "levels never stand still: {facts}");
        let (name, story) = stream.event().await.unwrap();
        assert_eq!((&*name, story.as_array().unwrap().len()), ("story", entries), "{role}: {story}");
        assert_eq!(story.to_string().contains("secret wish"), role != Role::Viewer, "{role}: {story}");
        then(&desk, |calls| {
            calls.active[0].floor = "caller";
            calls.active[0].phase = "leaving";
            calls.active[0].counts.agent_turns = 4;
        });
        let (name, facts) = stream.event().await.unwrap();
        let told = [&facts["floor"], &facts["phase"], &facts["counts"]["agent_turns"]];
        assert_eq!((&*name, told), ("facts", [&json!("caller"), &json!("leaving"), &json!(4)]));
        then(&desk, |calls| {
            let call = calls.active.remove(0).call;
            calls.recent.insert(0, EndedCall { call, ..ended(EndReason::CallerHungUp) });
        });
        let (name, end) = stream.event().await.unwrap();
        assert_eq!((&*name, &end["reason"]["label"], &end["id"]), ("ended", &json!("caller_hung_up"), &json!(id)));
        assert_eq!(stream.event().await, None, "there is nothing more to tell");
        let path = format!("/api/v1/live/{id}/events");
        assert_eq!(open(&desk, &login, &path, &[]).await.err(), Some(StatusCode::NOT_FOUND));
    }
}

/// For whoever wants no stream.
#[tokio::test]
async fn a_running_call_is_told_as_it_is_now_and_its_words_to_operators_alone() {
    let desk = Desk::new();
    let path = format!("/api/v1/live/{}", running(&desk));
    for (role, entries) in [(Role::Viewer, 1), (Role::Operator, 2)] {
        let login = desk.log_in(role).await;
        let told = ask(&desk.router, Method::GET, &path, &[("cookie", &login.cookie)]).await;
        assert_eq!(told.status, StatusCode::OK, "{}", told.text);
        let call = told.json();
        assert_eq!(
            [&call["floor"], &call["levels"]["agent"], &call["counts"]["agent_turns"]],
            [&json!("agent"), &json!(70), &json!(3)]
        );
        assert_eq!(call["entries"].as_array().unwrap().len(), entries, "{role}: {call}");
        assert_eq!(told.text.contains("secret wish"), role != Role::Viewer, "{role}: {call}");
        let nobody = format!("/api/v1/live/{}", CallId::random());
        let none = ask(&desk.router, Method::GET, &nobody, &[("cookie", &login.cookie)]).await;
        assert_eq!(none.status, StatusCode::NOT_FOUND);
    }
}

/// What the page puts in its places: how the call stands, and at its end the reason and the way to the record.
#[tokio::test(start_paused = true)]
async fn the_page_of_a_running_call_is_told_who_speaks_and_why_it_ended() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Viewer).await;
    let id = running(&desk);
    let page = ask(&desk.router, Method::GET, &format!("/live/{id}"), &[("cookie", &login.cookie)]).await.text;
    assert!(page.contains(r#"<div id="ended" role="status"></div>"#), "what comes into it is read out: {page}");
    let mut stream = open(&desk, &login, &format!("/live/{id}/stream?from=2"), &[]).await.unwrap();
    let (name, facts) = stream.event().await.unwrap();
    let facts = facts.as_str().unwrap();
    assert_eq!(name, "facts", "nothing that the page has already");
    assert!(page.contains(facts), "as the page was made:\n{page}\n{facts}");
    assert!(facts.contains("<dt>Who speaks</dt><dd>agent</dd>"), "{facts}");
    then(&desk, |calls| {
        let call = calls.active.remove(0).call;
        calls.recent.insert(0, EndedCall { call, ..ended(EndReason::CallerHungUp) });
    });
    let (name, end) = stream.event().await.unwrap();
    let [told, facts] = ["told", "facts"].map(|part| end[part].as_str().unwrap());
    assert_eq!(name, "ended");
    for part in ["This call has ended.", "caller hung up", &format!("href=\"/history/{id}\"")] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for part in ["<dt>State</dt><dd>ended</dd>", "<dt>Lasted</dt><dd>1:23</dd>"] {
        assert!(facts.contains(part), "{part}: {facts}");
    }
    assert_eq!(stream.event().await, None);
}

/// Its record is written after the call, and who follows the link is faster.
#[tokio::test]
async fn a_call_that_has_just_ended_is_not_said_to_have_no_record() {
    let desk = Desk::new();
    Sqlite::open(&desk.folder.path().join("calls.sqlite3")).unwrap();
    let login = desk.log_in(Role::Operator).await;
    let id = running(&desk);
    let page = async || ask(&desk.router, Method::GET, &format!("/history/{id}"), &[("cookie", &login.cookie)]).await;
    fn has_ended(calls: &mut CallsView, lasted: u64) {
        let since = jiff::Timestamp::now() - Duration::from_secs(20);
        let call = CallHead { since, ..calls.active.remove(0).call };
        let lasted = Duration::from_secs(lasted);
        calls.recent.insert(0, EndedCall { call, lasted, ..ended(EndReason::CallerHungUp) });
    }
    then(&desk, |calls| has_ended(calls, 19));
    let soon = page().await;
    assert_eq!((soon.status, soon.headers["refresh"].to_str().unwrap()), (StatusCode::ACCEPTED, "1"));
    assert!(soon.text.contains("its record is being written"), "{}", soon.text);
    then(&desk, |calls| has_ended(calls, 2));
    let never = page().await;
    assert_eq!(never.status, StatusCode::NOT_FOUND, "it has long been over");
    assert!(never.text.contains("No record of this call is kept."), "{}", never.text);
}

/// So many have ended in this moment that the engine does not know this one any more.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_forgotten_is_an_end_all_the_same() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let id = running(&desk);
    let mut api = open(&desk, &login, &format!("/api/v1/live/{id}/events"), &[]).await.unwrap();
    let mut page = open(&desk, &login, &format!("/live/{id}/stream"), &[]).await.unwrap();
    then(&desk, |calls| drop(calls.active.remove(0)));
    assert_eq!(api.event().await, Some(("ended".into(), json!({}))));
    let (_, end) = page.event().await.unwrap();
    assert_eq!(end["facts"], Value::Null);
    assert!(end["told"].as_str().unwrap().contains("This call has ended."));
}

/// Browsers dial again by themselves, and say what they were told last.
#[tokio::test(start_paused = true)]
async fn whose_connection_broke_off_is_told_nothing_twice() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let id = running(&desk);
    for path in [format!("/live/{id}/stream?from=0"), format!("/api/v1/live/{id}/events")] {
        let mut first = open(&desk, &login, &path, &[]).await.unwrap();
        first.event().await.unwrap();
        let told = first.piece().await.unwrap();
        assert!(std::str::from_utf8(&told).unwrap().contains("id: 2"), "{told:?}");
        let mut again = open(&desk, &login, &path, &[("last-event-id", "2")]).await.unwrap();
        assert_eq!(again.event().await.unwrap().0, "facts");
        then(&desk, |calls| calls.active[0].floor = "both");
        assert_eq!(again.event().await.unwrap().0, "facts", "there is nothing new in its story");
        then(&desk, |_| {});
    }
}

#[tokio::test(start_paused = true)]
async fn the_live_page_has_buttons_for_operators_and_news_only_when_there_are_any() {
    for (role, button) in [(Role::Viewer, false), (Role::Operator, true)] {
        let desk = Desk::new();
        let login = desk.log_in(role).await;
        let mut stream = open(&desk, &login, "/stream", &[]).await.unwrap();
        let (name, first) = stream.event().await.unwrap();
        let first = first.as_str().unwrap().to_owned();
        assert_eq!((&*name, first.contains("?hangup")), ("live", button), "{role}");
        assert!(!first.contains("secret wish"), "{role}");
        for private in ["+15550199", "Ada Byron", "493012345"] {
            assert_eq!(first.contains(private), button, "{role} {private}");
        }
        let quiet = timeout(Duration::from_secs(10), stream.event()).await;
        assert!(quiet.is_err(), "nothing has changed: {quiet:?}");
        then(&desk, |calls| calls.active[0].floor = "caller");
        let (_, second) = stream.event().await.unwrap();
        assert!(second.as_str().unwrap().contains("floor caller"), "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_live_page_shows_fifty_calls_at_once_and_leads_to_the_others() {
    let desk = Desk::new();
    then(&desk, |calls| calls.active = vec![calls.active[0].clone(); 120]);
    let login = desk.log_in(Role::Operator).await;
    for (query, rows, tells, before, after) in [
        ("", 50, "1–50 of 120", None, Some("/?part=2")),
        ("?part=2", 50, "51–100 of 120", Some("/?part=1"), Some("/?part=3")),
        ("?part=3", 20, "101–120 of 120", Some("/?part=2"), None),
        ("?part=99", 20, "101–120 of 120", Some("/?part=2"), None),
        ("?part=-1&part=x", 50, "1–50 of 120", None, Some("/?part=2")),
    ] {
        let page = ask(&desk.router, Method::GET, &format!("/{query}"), &[("cookie", &login.cookie)]).await.text;
        let mut stream = open(&desk, &login, &format!("/stream{query}"), &[]).await.unwrap();
        let (_, told) = stream.event().await.unwrap();
        for text in [&*page, told.as_str().unwrap()] {
            assert_eq!(text.matches("tag phase").count(), rows, "{query}");
            assert!(text.contains(tells) && text.contains("120 calls"), "{query}");
            let link = |rel: &str| {
                let (_, rest) = text.split_once(&format!("rel=\"{rel}\" href=\""))?;
                rest.split_once('"').map(|(link, _)| link)
            };
            assert_eq!((link("prev"), link("next")), (before, after), "{query}");
        }
    }
    then(&desk, |_| {});
    let few = ask(&desk.router, Method::GET, "/?part=2", &[("cookie", &login.cookie)]).await.text;
    assert!(few.matches("tag phase").count() > 0 && !few.contains("rel=\"next\""), "{few}");
}

/// A voice is more private than words.
#[tokio::test]
async fn viewers_do_not_listen_in() {
    let desk = Desk::new();
    let id = running(&desk);
    let path = format!("/api/v1/live/{id}/audio");
    desk.engine.goes_on.store(true, Ordering::SeqCst);
    let viewer = desk.log_in(Role::Viewer).await;
    assert_eq!(open(&desk, &viewer, &path, &[]).await.err(), Some(StatusCode::FORBIDDEN));
    assert!(desk.engine.listeners.lock().unwrap().is_empty(), "the call is not even asked");
    let page = ask(&desk.router, Method::GET, &format!("/live/{id}"), &[("cookie", &viewer.cookie)]).await.text;
    assert!(!page.contains("/audio"), "{page}");
    let operator = desk.log_in(Role::Operator).await;
    assert!(open(&desk, &operator, &path, &[]).await.is_ok());
}

/// Issue 7: a browser that goes away in the middle of listening.
#[tokio::test(start_paused = true)]
async fn a_browser_that_goes_away_leaves_nothing_behind() {
    let mut watchers = None;
    let desk = Desk::with(|site| watchers = Some(site.counters.watchers.clone()));
    let watchers = watchers.unwrap();
    let login = desk.log_in(Role::Operator).await;
    let id = running(&desk);
    desk.engine.goes_on.store(true, Ordering::SeqCst);
    let mut heard = open(&desk, &login, &format!("/api/v1/live/{id}/audio"), &[]).await.unwrap();
    let mut told = open(&desk, &login, &format!("/live/{id}/stream"), &[]).await.unwrap();
    let mut live = open(&desk, &login, "/stream", &[]).await.unwrap();
    assert_eq!(heard.piece().await.unwrap(), "RIFF");
    told.event().await.unwrap();
    live.event().await.unwrap();
    assert_eq!(watchers.get(), 3);
    let sound = desk.engine.listeners.lock().unwrap().pop().unwrap();
    drop((heard, told, live));
    timeout(MOMENT, sound.closed()).await.expect("the call knows that nobody listens any more");
    assert_eq!(watchers.get(), 0, "their places are free");
}

/// Also of a call that makes no sound.
#[tokio::test(start_paused = true)]
async fn with_the_session_everything_ends_that_it_has_open() {
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let id = running(&desk);
    desk.engine.goes_on.store(true, Ordering::SeqCst);
    let mut heard = open(&desk, &login, &format!("/api/v1/live/{id}/audio"), &[]).await.unwrap();
    let mut told = open(&desk, &login, &format!("/api/v1/live/{id}/events"), &[]).await.unwrap();
    let mut live = open(&desk, &login, "/stream", &[]).await.unwrap();
    for part in ["RIFF", "and so on"] {
        assert_eq!(heard.piece().await.unwrap(), part);
    }
    let headers = [("cookie", &*login.cookie), ("x-csrf-token", &*login.csrf)];
    assert_eq!(desk.post("/logout", &headers, String::new()).await.status, StatusCode::SEE_OTHER);
    assert_eq!(heard.piece().await, None);
    while told.event().await.is_some() {}
    while live.event().await.is_some() {}
    assert_eq!(open(&desk, &login, "/stream", &[]).await.err(), Some(StatusCode::SEE_OTHER));
}

/// What the document says of a stream's events.
fn documented<'a>(document: &'a Value, path: &str) -> &'a Vec<Value> {
    let answer = &document["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"];
    answer["schema"]["oneOf"].as_array().unwrap_or_else(|| panic!("{path}: {answer}"))
}

/// Holds an event against that, and returns its name. No field may be there that the document does not know.
fn held(document: &Value, path: &str, (name, data): (String, Value)) -> String {
    let of_this_name = |event: &&Value| event["properties"]["event"]["const"] == *name;
    let known = documented(document, path).iter().find(of_this_name).unwrap_or_else(|| panic!("{path} has no {name}"));
    let mut schema = known["properties"]["data"]["contentSchema"].clone();
    schema["components"] = document["components"].clone();
    schema["unevaluatedProperties"] = false.into();
    let wrong = jsonschema::validator_for(&schema).unwrap().validate(&data).err().map(|error| error.to_string());
    assert_eq!(wrong, None, "{path} {name}: {data}");
    name
}

#[tokio::test(start_paused = true)]
async fn each_event_is_as_the_document_says_and_each_that_it_knows_is_told() {
    const ALL: &str = "/api/v1/events";
    const ONE: &str = "/api/v1/live/{id}/events";
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let document = ask(&desk.router, Method::GET, "/api/v1/openapi.json", &[("cookie", &login.cookie)]).await.json();
    let path = ONE.replace("{id}", &running(&desk).to_string());
    let mut told = BTreeSet::new();
    let mut all = open(&desk, &login, ALL, &[]).await.unwrap();
    told.insert(held(&document, ALL, all.event().await.unwrap()));
    let mut kept = open(&desk, &login, &path, &[]).await.unwrap();
    let mut forgotten = open(&desk, &login, &path, &[]).await.unwrap();
    for stream in [&mut kept, &mut forgotten] {
        for _ in ["facts", "story"] {
            told.insert(held(&document, ONE, stream.event().await.unwrap()));
        }
    }
    then(&desk, |calls| {
        let call = calls.active.remove(0).call;
        calls.recent.insert(0, EndedCall { call, ..ended(EndReason::CallerHungUp) });
    });
    told.insert(held(&document, ONE, kept.event().await.unwrap()));
    then(&desk, |calls| drop(calls.active.remove(0)));
    let end = forgotten.event().await.unwrap();
    assert_eq!(end.1, json!({}));
    told.insert(held(&document, ONE, end));
    told.insert(held(&document, ALL, all.event().await.unwrap()));
    let events = [ALL, ONE].into_iter().flat_map(|path| documented(&document, path));
    let known = events.map(|event| event["properties"]["event"]["const"].as_str().unwrap().to_owned());
    assert_eq!(told, known.collect());
}

/// The log tells who listened, not who would have liked to.
#[tokio::test(start_paused = true)]
async fn who_finds_no_place_has_not_listened() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let desk = Desk::new();
    let login = desk.log_in(Role::Operator).await;
    let path = format!("/api/v1/live/{}/audio", running(&desk));
    desk.engine.goes_on.store(true, Ordering::SeqCst);
    let listened = || capture.lines().iter().filter(|line| line.contains("an operator listens")).count();
    let mut watchers = Vec::new();
    while let Ok(watcher) = open(&desk, &login, "/api/v1/events", &[]).await {
        watchers.push(watcher);
    }
    assert_eq!(open(&desk, &login, &path, &[]).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!((listened(), desk.engine.listeners.lock().unwrap().len()), (0, 0), "the call is not even asked");
    watchers.pop();
    let heard = open(&desk, &login, &path, &[]).await.unwrap();
    assert_eq!((listened(), desk.engine.listeners.lock().unwrap().len()), (1, 1));
    drop(heard);
}
