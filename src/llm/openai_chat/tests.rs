//! Answers as they come from servers of every kind, out of memory where the clock matters and over sockets elsewhere.

use super::*;
use crate::{
    call::Usage,
    llm::{self, Message},
    remote::kinds,
    tool::ToolCall,
};
use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode as Status, header},
    response::IntoResponse,
    routing::post,
};
use futures_util::{Stream, stream};
use proptest::prelude::*;
use serde_json::json;
use std::{convert::Infallible, io, sync::Mutex};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};

const WAIT: Duration = Duration::from_secs(3);
const SECRET: &str = "sk-a-secret-key";

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish, "logprobs": null });
    event(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice] }))
}

fn text(text: &str) -> String {
    chunk(json!({ "content": text }), None)
}

fn fragment(fragment: Value) -> String {
    chunk(json!({ "tool_calls": [fragment] }), None)
}

fn function(name: Option<&str>, arguments: &str) -> Value {
    name.map_or(json!({ "arguments": arguments }), |name| json!({ "name": name, "arguments": arguments }))
}

const DONE: &str = "data: [DONE]\n\n";

/// What comes of a body that arrives like this.
async fn heard_of(
    body: impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static,
) -> (Vec<Piece>, Result<Finish, Fault>) {
    let body = reqwest::Body::wrap_stream(body);
    let response = axum::http::Response::builder().body(body).unwrap();
    let (sender, mut receiver) = mpsc::channel(1);
    let asking = async { Ok(response.into()) };
    let collecting = async {
        let mut pieces = Vec::new();
        while let Some(piece) = receiver.recv().await {
            pieces.push(piece);
        }
        pieces
    };
    let (finish, pieces) = tokio::join!(answer(asking, WAIT, sender), collecting);
    (pieces, finish)
}

fn whole(body: &str) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + use<> {
    stream::iter([Ok(Bytes::from(body.to_owned()))])
}

async fn heard(body: &str) -> (Vec<Piece>, Result<Finish, Fault>) {
    heard_of(whole(body)).await
}

/// The calls of an answer that ends well.
async fn calls(fragments: &[Value]) -> Vec<(String, String, String)> {
    let body: String = fragments.iter().map(|one| fragment(one.clone())).collect();
    let (pieces, finish) = heard(&(body + &chunk(json!({}), Some("tool_calls")) + DONE)).await;
    assert_eq!(finish, Ok(Finish::Stop));
    let call = |piece| match piece {
        Piece::Call(ToolCall { id, name, arguments }) => (id, name, arguments),
        other => panic!("{other:?}"),
    };
    pieces.into_iter().map(call).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.into(), name.into(), arguments.into())
}

fn said(pieces: &[Piece]) -> String {
    pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None }).collect()
}

/// Fault by a message in an answer that had begun.
fn reported(like: u16, code: Option<&str>) -> Result<Finish, Fault> {
    Err(Fault::Reported { like: Some(like), code: code.map(str::to_owned) })
}

#[tokio::test]
async fn words_are_told_as_they_come_and_their_tokens_at_the_end() {
    let usage = json!({
        "prompt_tokens": 120, "completion_tokens": 50, "total_tokens": 170,
        "prompt_tokens_details": { "cached_tokens": 64, "audio_tokens": 20 },
        "completion_tokens_details": { "reasoning_tokens": 30, "audio_tokens": 5 },
    });
    let body = chunk(json!({ "role": "assistant", "content": "", "refusal": null }), None)
        + &text("Good ")
        + &text("morning.")
        + &chunk(json!({}), Some("stop"))
        + &event(&json!({ "choices": [], "usage": usage }))
        + DONE;
    let (pieces, finish) = heard(&body).await;
    let usage = Usage {
        input_text_tokens: 100,
        input_audio_tokens: 20,
        input_cached_tokens: 64,
        output_text_tokens: 15,
        output_audio_tokens: 5,
        output_thinking_tokens: 30,
        ..Usage::default()
    };
    assert_eq!(pieces, [Piece::Text("Good ".into()), Piece::Text("morning.".into()), Piece::Usage(usage)]);
    assert_eq!(finish, Ok(Finish::Stop));
}

#[tokio::test]
async fn an_answer_ends_for_a_reason() {
    for (reason, expected) in [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::Stop),
        ("eos", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Filtered),
    ] {
        let body = text("So") + &fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{") }));
        let (pieces, finish) = heard(&(body + &chunk(json!({}), Some(reason)))).await;
        assert_eq!(finish, Ok(expected), "{reason}");
        let called = pieces.iter().any(|piece| matches!(piece, Piece::Call(_)));
        assert_eq!(called, expected == Finish::Stop, "{reason}: what is cut may be cut in a call");
    }
    assert_eq!(heard(&chunk(json!({}), Some("error"))).await.1, reported(500, None));
    let (pieces, finish) = heard(&(chunk(json!({ "refusal": "I cannot." }), Some("")) + DONE)).await;
    assert_eq!((said(&pieces).as_str(), finish), ("I cannot.", Ok(Finish::Stop)), "a refusal is said");
}

#[tokio::test]
async fn what_a_model_thinks_aloud_is_not_said() {
    let pieces = ["<thi", "nk>They greet", " me.</", "think>", "\n\nHello 3 ", "<"];
    let body = pieces.map(text).concat() + &chunk(json!({}), Some("stop")) + DONE;
    let (pieces, finish) = heard(&body).await;
    assert_eq!((said(&pieces).as_str(), finish), ("\n\nHello 3 <", Ok(Finish::Stop)));
    let (pieces, finish) = heard(&(text("<think>On and on") + &text(" and <") + DONE)).await;
    assert_eq!((pieces, finish), (Vec::new(), Ok(Finish::Stop)));
}

#[tokio::test]
async fn calls_are_put_together_from_fragments_that_interleave() {
    let told = calls(&[
        json!({ "index": 0, "id": "a", "type": "function", "function": function(Some("one"), "") }),
        json!({ "index": 1, "id": "b", "type": "function", "function": function(Some("two"), "{\"n\"") }),
        json!({ "index": 0, "function": function(None, "{}") }),
        json!({ "index": 1, "function": function(None, ":2}") }),
    ])
    .await;
    assert_eq!(told, [call("a", "one", "{}"), call("b", "two", "{\"n\":2}")]);
}

/// Each is what some server really sends.
#[tokio::test]
async fn calls_of_servers_that_number_and_name_in_their_own_way_are_understood() {
    let both = [call("a", "one", "{}"), call("b", "two", "{\"n\":2}")];
    let same_index = [
        json!({ "index": 0, "id": "a", "function": function(Some("one"), "{}") }),
        json!({ "index": 0, "id": "b", "function": function(Some("two"), "{\"n\":2}") }),
    ];
    assert_eq!(calls(&same_index).await, both);
    let no_index = [
        json!({ "id": "a", "function": function(Some("one"), "{}") }),
        json!({ "id": "b", "function": function(Some("two"), "{\"n\"") }),
        json!({ "function": function(None, ":2}") }),
    ];
    assert_eq!(calls(&no_index).await, both);
    let name_again = [
        json!({ "index": 0, "id": "a", "function": function(Some("one"), "{") }),
        json!({ "index": 0, "id": "a", "function": function(Some("one"), "}") }),
        json!({ "index": 1, "id": "b", "function": function(Some("two"), "{\"n\"") }),
        json!({ "index": 1, "function": function(Some("two"), ":2}") }),
    ];
    assert_eq!(calls(&name_again).await, both);
    let id_anew = [
        json!({ "index": 0, "id": "a", "function": function(Some("one"), "{") }),
        json!({ "index": 0, "id": "x", "function": function(None, "}") }),
        json!({ "index": 1, "id": "b", "function": { "name": "two", "arguments": { "n": 2 } } }),
    ];
    assert_eq!(calls(&id_anew).await, both);
    let no_ids = [
        json!({ "function": function(Some("one"), "{}") }),
        json!({ "function": function(Some("two"), "{\"n\":") }),
        json!({ "function": function(Some("two"), "2}") }),
    ];
    let told = calls(&no_ids).await;
    assert_ne!(told[0].0, told[1].0, "results go to their calls by ids");
    let bare: Vec<_> = told.into_iter().map(|(_, name, arguments)| (name, arguments)).collect();
    assert_eq!(bare, [("one".into(), "{}".into()), ("two".into(), "{\"n\":2}".to_owned())]);
}

#[tokio::test]
async fn arguments_are_told_as_the_model_wrote_them() {
    for arguments in ["", "{\"n\": 1,}", "yes"] {
        let told = calls(&[json!({ "index": 0, "id": "a", "function": function(Some("f"), arguments) })]).await;
        assert_eq!(told, [call("a", "f", arguments)]);
    }
}

/// V3, V46: as the specification writes a call, and as its reference reads one: what is in `function` goes first.
#[tokio::test]
async fn a_call_without_a_function_is_read_by_its_name_and_its_input() {
    let input = json!({ "crop": "wheat", "mandi": "Azadpur" });
    let (written, other) = (input.to_string(), json!({ "crop": "rice" }));
    for odd in [
        json!({ "name": "price", "input": input }),
        json!({ "name": "price", "input": written }),
        json!({ "name": "price", "arguments": input, "input": other }),
        json!({ "name": "price", "arguments": written, "input": other }),
        json!({ "function": { "arguments": written }, "name": "price", "arguments": other }),
        json!({ "function": { "name": "price", "arguments": input }, "name": "rain", "input": other }),
    ] {
        let mut told = calls(std::slice::from_ref(&odd)).await;
        let (id, name, arguments) = told.remove(0);
        assert!(told.is_empty() && !id.is_empty(), "{odd}");
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        assert_eq!((name.as_str(), arguments), ("price", input.clone()), "{odd}");
    }
}

/// The policy answers that it names no tool; the session goes on.
#[tokio::test]
async fn a_call_without_a_name_is_told() {
    let nameless = json!({ "index": 0, "id": "a", "function": function(None, "{}") });
    assert_eq!(calls(&[nameless]).await, [call("a", "", "{}")]);
    let told = calls(&[json!({ "input": { "code": "A" } })]).await;
    let [(id, name, arguments)] = &told[..] else { panic!("{told:?}") };
    assert!(id.starts_with(ToolCall::UNNAMED) && name.is_empty() && arguments == "{\"code\":\"A\"}", "{told:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_counted_and_passed_over() {
    let odd = Piece::Oddity(Oddity::Malformed);
    let body = "data: so\n\n".to_owned() + &text("It is ") + "data: {\"choices\": 1}\n\n" + &text("open.") + DONE;
    let (pieces, finish) = heard(&body).await;
    let words = ["It is ", "open."].map(|words| Piece::Text(words.into()));
    let [first, second] = words;
    assert_eq!((pieces, finish), (vec![odd.clone(), first, odd.clone(), second], Ok(Finish::Stop)));
    let (pieces, finish) = heard(&(text("So") + "data: so\n\n")).await;
    assert_eq!((said(&pieces).as_str(), finish), ("So", Err(UNREADABLE)), "its end may have been in it");
    let whole_call = fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{}") }));
    let (pieces, finish) = heard(&(whole_call + "data: so\n\n" + DONE)).await;
    assert_eq!((pieces.len(), &pieces[0], finish), (2, &odd, Ok(Finish::Stop)));
}

/// Without its middle, `{"amount":5000}` is `{"amount":5}`.
#[tokio::test]
async fn what_cannot_be_read_in_the_middle_of_a_call_is_a_fault() {
    let begun = fragment(json!({ "index": 0, "id": "a", "function": function(Some("pay"), "{\"amount\":5") }));
    let ended = fragment(json!({ "index": 0, "function": function(None, "}") })) + DONE;
    let (pieces, finish) = heard(&(begun + "data: so\n\n" + &ended)).await;
    assert!(pieces.is_empty() && matches!(finish, Err(Fault::Garbage(_))), "{pieces:?} {finish:?}");
}

#[tokio::test]
async fn words_before_a_call_are_told_before_it() {
    let body = text("Let me see.")
        + &fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{}") }))
        + &chunk(json!({}), Some("stop"));
    let (pieces, _) = heard(&body).await;
    let call = ToolCall { id: "a".into(), name: "f".into(), arguments: "{}".into() };
    assert_eq!(pieces, [Piece::Text("Let me see.".into()), Piece::Call(call)]);
}

#[tokio::test]
async fn a_stream_that_is_cut_is_a_fault_and_tells_no_call() {
    let body = text("Let me see.")
        + &fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{}") }))
        + &chunk(json!({}), Some("tool_calls"));
    // The last two bytes end the event that ends the answer.
    for cut in [body.len() - 3, body.len() - 90, body.len() / 2, 20, 0] {
        let (pieces, finish) = heard(&body[..cut]).await;
        assert_eq!(finish, Err(Fault::Closed(None)), "cut at {cut}");
        assert!(!pieces.iter().any(|piece| matches!(piece, Piece::Call(_))), "cut at {cut}: {pieces:?}");
    }
    let broken = whole(&text("So")).chain(stream::iter([Err(io::Error::other("reset"))]));
    assert_eq!(heard_of(broken).await, (vec![Piece::Text("So".into())], Err(Fault::Closed(None))));
    let broken = whole(&body).chain(stream::iter([Err(io::Error::other("reset"))]));
    assert_eq!(heard_of(broken).await.1, Ok(Finish::Stop), "it had said all");
    let open = text("So") + DONE;
    assert_eq!(heard(&open).await.1, Ok(Finish::Stop), "complete by its own word");
}

#[tokio::test]
async fn a_fault_in_the_middle_of_an_answer_is_told_by_its_name_only() {
    for (error, expected) in [
        (json!({ "error": { "message": SECRET, "type": "server_error", "code": null } }), (500, Some("server_error"))),
        (json!({ "error": { "message": SECRET, "code": 429 } }), (429, None)),
        (json!({ "error": { "code": "insufficient_quota" } }), (429, Some("insufficient_quota"))),
        (json!({ "error": { "type": "invalid_request_error" } }), (400, Some("invalid_request_error"))),
        (json!({ "error": SECRET }), (500, None)),
        (json!({ "object": "error", "message": SECRET, "code": 400 }), (400, None)),
    ] {
        let (pieces, finish) = heard(&(text("So") + &event(&error))).await;
        assert_eq!((said(&pieces).as_str(), finish), ("So", reported(expected.0, expected.1)), "{error}");
    }
}

#[tokio::test]
async fn garbage_is_a_fault() {
    for body in ["data: {\"choices\": 1}\n\n", "data: so\n\n", "data: \u{1}\n\n"] {
        for body in [body.to_owned(), body.to_owned() + DONE] {
            let finish = heard(&body).await.1;
            assert!(matches!(finish, Err(Fault::Garbage(_))), "{body}: {finish:?}");
        }
    }
    assert_eq!(heard("<html>\n").await.1, Err(Fault::Closed(None)), "no event at all");
    let broken = stream::iter([Ok(Bytes::from_static(b"data: {\"choices\": \"\xff\xfe\"}\n\n"))]);
    assert!(matches!(heard_of(broken).await.1, Err(Fault::Garbage(_))));
    let many: String =
        (0..65).map(|n| fragment(json!({ "index": n, "function": function(Some("f"), "{}") }))).collect();
    assert_eq!(heard(&many).await.1, Err(Fault::Garbage("it calls too many tools at once")));
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let line = Bytes::from(vec![b'x'; 1 << 16]);
    let endless = stream::repeat_with(move || Ok(line.clone()));
    assert_eq!(heard_of(endless).await.1, Err(Fault::TooLarge(1 << 20)));
    let comments = Bytes::from(": waiting\n".repeat(6_000));
    let endless = stream::repeat_with(move || Ok(comments.clone()));
    assert_eq!(heard_of(endless).await.1, Err(Fault::TooLarge(ANSWER_BYTES_MAX)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_is_waited_for_as_long_as_is_set_and_no_longer() {
    let began = Instant::now();
    assert_eq!(heard_of(stream::pending()).await.1, Err(Fault::Slow(WAIT)));
    assert_eq!(began.elapsed(), WAIT);
    // Neither comments nor thinking are words.
    let waiting = stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let thought = chunk(json!({ "role": "assistant", "reasoning_content": "Hm." }), None);
        Some((Ok(Bytes::from(format!(": PROCESSING\n\n{thought}"))), ()))
    });
    let began = Instant::now();
    assert_eq!(heard_of(waiting.boxed()).await.1, Err(Fault::Slow(WAIT)));
    assert_eq!(began.elapsed(), WAIT);
    let began = Instant::now();
    let stuck = whole(&text("So")).chain(stream::pending());
    assert_eq!(heard_of(stuck).await, (vec![Piece::Text("So".into())], Err(Fault::Slow(WAIT))));
    assert_eq!(began.elapsed(), WAIT);
    let never_answered = answer(std::future::pending(), WAIT, mpsc::channel(1).0).await;
    assert_eq!(never_answered, Err(Fault::Slow(WAIT)));
}

#[tokio::test(start_paused = true)]
async fn words_and_calls_do_not_wait_for_a_service_that_does_not_hang_up() {
    let body = fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{}") }))
        + &chunk(json!({}), Some("tool_calls"));
    let began = Instant::now();
    let (pieces, finish) = heard_of(whole(&body).chain(stream::pending())).await;
    assert_eq!((pieces.len(), finish, began.elapsed()), (1, Ok(Finish::Stop), AFTER_MAX));
}

/// A listener that speaks slowly is no fault of the service.
#[tokio::test(start_paused = true)]
async fn a_service_is_not_blamed_while_its_words_wait_to_be_taken() {
    let (sender, mut receiver) = mpsc::channel(1);
    let body = text("One. ").repeat(5) + DONE;
    let response = axum::http::Response::new(reqwest::Body::from(body));
    let slowly = async {
        let mut count = 0;
        while receiver.recv().await.is_some() {
            count += 1;
            tokio::time::sleep(WAIT * 2).await;
        }
        count
    };
    let (finish, count) = tokio::join!(answer(async { Ok(response.into()) }, WAIT, sender), slowly);
    assert_eq!((finish, count), (Ok(Finish::Stop), 5));
}

fn full_answer() -> String {
    let body = chunk(json!({ "role": "assistant", "content": "" }), None)
        + ": PROCESSING\r\n\r\n"
        + &text("Grüße, 世界! ").replace('\n', "\r\n")
        + "event: message\nid: 7\n"
        + &text("🙂\n\"So\" \\ ")
        + &fragment(json!({ "index": 0, "id": "a", "function": function(Some("f"), "{\"city\":\"Zü") }))
        + &fragment(json!({ "index": 0, "function": function(None, "rich\"}") })).replace("\n\n", "\r\r")
        + &chunk(json!({}), Some("tool_calls"))
        + &event(&json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 3 } }));
    body.replacen("data: ", "data:", 2) + DONE
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_answer_that_is_cut_anywhere_on_its_way_is_the_same_answer(
        cuts in prop::collection::vec(0..full_answer().len(), 0..30),
    ) {
        let body = full_answer();
        let mut cuts = cuts;
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| Ok(Bytes::copy_from_slice(&body.as_bytes()[ends[0]..ends[1]])));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (pieces, finish) = runtime.block_on(heard_of(stream::iter(pieces.collect::<Vec<_>>())));
        prop_assert_eq!(finish, Ok(Finish::Stop));
        prop_assert_eq!(said(&pieces), "Grüße, 世界! 🙂\n\"So\" \\ ");
        let call = ToolCall { id: "a".into(), name: "f".into(), arguments: "{\"city\":\"Zürich\"}".into() };
        prop_assert_eq!(&pieces[2], &Piece::Call(call));
        let usage = Usage { input_text_tokens: 9, output_text_tokens: 3, ..Usage::default() };
        prop_assert_eq!(&pieces[3..], &[Piece::Usage(usage)]);
    }
}

mod over_sockets {
    use super::*;

    type Asked = Arc<Mutex<Vec<(Option<String>, Value)>>>;

    /// Answers all requests like this.
    async fn serve<R: IntoResponse + 'static>(
        answer: impl Fn() -> R + Clone + Send + Sync + 'static,
    ) -> (String, Asked) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let asked = Asked::default();
        let kept = asked.clone();
        let handler = async move |headers: HeaderMap, body: axum::Json<Value>| {
            let key = headers.get(header::AUTHORIZATION).map(|key| key.to_str().unwrap().to_owned());
            kept.lock().unwrap().push((key, body.0));
            answer().into_response()
        };
        let router = Router::new().route("/v1/chat/completions", post(handler));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (url, asked)
    }

    fn options(url: &str) -> Value {
        json!({ "api_key": SECRET, "base_url": url, "model": "m", "timeout_ms": 3_000 })
    }

    fn hello() -> Ask {
        Ask {
            messages: vec![Message::System("Be brief.".into()), Message::Caller("Hello.".into())],
            order: None,
            tools: [].into(),
            may_call: true,
            cache_key: "call-1".into(),
            sentences: Arc::default(),
        }
    }

    async fn asked(url: &str) -> Result<Finish, Fault> {
        kinds::build(llm::MODELS, "openai_chat", &options(url)).unwrap().answer(hello(), mpsc::channel(8).0).await
    }

    #[tokio::test]
    async fn a_server_is_asked_for_no_more_than_is_configured() {
        let (url, asked) = serve(|| text("Hi.") + DONE).await;
        let model = kinds::build(llm::MODELS, "openai_chat", &options(&url)).unwrap();
        let (sender, mut receiver) = mpsc::channel(8);
        assert_eq!(model.answer(hello(), sender).await, Ok(Finish::Stop));
        assert_eq!(receiver.recv().await, Some(Piece::Text("Hi.".into())));
        let (key, body) = asked.lock().unwrap()[0].clone();
        assert_eq!(key.as_deref(), Some("Bearer sk-a-secret-key"));
        let messages = json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Hello." }]);
        let options = json!({ "include_usage": true });
        let wanted = json!({ "model": "m", "messages": messages, "stream": true, "stream_options": options });
        assert_eq!(body, wanted, "what is not configured is not sent");
    }

    #[tokio::test]
    async fn a_server_that_refuses_is_told_by_its_code_and_never_by_its_sentences() {
        let fault = |code: &str| json!({ "error": { "message": format!("{SECRET} is wrong"), "code": code } });
        let (url, _) = serve(move || (Status::UNAUTHORIZED, axum::Json(fault("Not a name: sk-1")))).await;
        assert_eq!(asked(&url).await.unwrap_err().to_string(), "the service answered 401");
        let busy =
            move || (Status::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "7")], axum::Json(fault("rate_limit_exceeded")));
        let (url, _) = serve(busy).await;
        let error = asked(&url).await.unwrap_err();
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(error, Fault::Refused { status: 429, code: Some("rate_limit_exceeded".into()), retry_after });
        // One whose fault never ends is refused all the same.
        let endless = || (Status::BAD_GATEWAY, Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
        let (url, _) = serve(endless).await;
        let refused = Fault::Refused { status: 502, code: None, retry_after: None };
        assert_eq!(asked(&url).await, Err(refused));
    }

    #[tokio::test]
    async fn a_page_or_an_answer_in_one_piece_is_no_stream() {
        let page = || ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "Welcome");
        let (url, _) = serve(page).await;
        assert!(matches!(asked(&url).await, Err(Fault::Garbage(_))));
        let (url, _) = serve(|| axum::Json(json!({ "choices": [] }))).await;
        assert!(matches!(asked(&url).await, Err(Fault::Garbage(_))));
    }

    /// Reads the head of a request, then leaves the connection to the test.
    async fn accept(listener: &TcpListener) -> tokio::net::TcpStream {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.windows(4).any(|end| end == b"\r\n\r\n") {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        socket
    }

    async fn listen() -> (TcpListener, String) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        (listener, url)
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[tokio::test]
    async fn a_connection_that_breaks_in_the_middle_is_a_fault() {
        let (listener, url) = listen().await;
        let serving = async {
            let mut socket = accept(&listener).await;
            let body = text("So");
            let words = format!("{HEAD}{:x}\r\n{body}\r\n", body.len());
            socket.write_all(words.as_bytes()).await.unwrap();
        };
        let (finish, ()) = tokio::join!(asked(&url), serving);
        assert_eq!(finish, Err(Fault::Closed(None)));
        let (_socket, nobody) = crate::remote::nobody();
        assert!(matches!(asked(&format!("http://{nobody}")).await, Err(Fault::Unreachable(_))));
    }

    #[tokio::test]
    async fn an_answer_that_nobody_wants_any_more_is_aborted() {
        let (listener, url) = listen().await;
        let model = kinds::build(llm::MODELS, "openai_chat", &options(&url)).unwrap();
        let answering = tokio::spawn(model.answer(hello(), mpsc::channel(1).0));
        let mut socket = accept(&listener).await;
        let (gone, hung_up) = oneshot::channel();
        tokio::spawn(async move {
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest).await;
            gone.send(())
        });
        answering.abort();
        hung_up.await.unwrap();
    }

    #[test]
    fn options_that_cannot_work_are_told() {
        let kind = llm::MODELS.iter().find(|row| row.kind == "openai_chat").expect("it is there");
        let check = kind.check;
        for (key, value) in [
            ("base_url", json!("ftp://a")),
            ("base_url", json!("https://user:word@a")),
            ("base_url", json!("https://a/v1?key=k")),
            ("api_key", json!("a key")),
            ("model", json!(" ")),
            ("temperature", json!(2.5)),
            ("max_output_tokens", json!(0)),
            ("service_tier", json!("a b")),
            ("timeout_ms", json!(5)),
        ] {
            let mut options = options("https://llm.example.com/v1");
            assert!(check(&options).is_empty());
            options[key] = value.clone();
            let told: Vec<_> = check(&options).into_iter().map(|problem| problem.path).collect();
            assert_eq!(told, [key], "{value}");
        }
    }
}
