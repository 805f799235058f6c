//! What services answer, and what hostile ones try.

use super::*;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use futures_util::stream;

/// D answer 22: `{status, body, headers}`, JSON by content type, else text.
#[tokio::test]
async fn an_answer_is_status_headers_and_body() {
    let text = ([("X-Trace", "first"), ("X-Trace", "7")], "plain words").into_response();
    let created = (StatusCode::CREATED, [(CONTENT_TYPE, "application/vnd.api+json")], r#"{"id":7}"#).into_response();
    let service = Service::new([text, created, StatusCode::NO_CONTENT.into_response()]).await;
    let fetch = real();
    let text = fetch.fetch(request(service.url("/"))).await.unwrap();
    assert_eq!((text.status, &text.body), (200, &json!("plain words")));
    assert!(text.headers.contains(&("x-trace".to_owned(), "7".to_owned())), "{:?}", text.headers);
    let created = fetch.fetch(request(service.url("/"))).await.unwrap();
    assert_eq!((created.status, &created.body), (201, &json!({ "id": 7 })));
    let nothing = fetch.fetch(request(service.url("/"))).await.unwrap();
    assert_eq!((nothing.status, &nothing.body), (204, &Value::Null));
}

/// D answer 22: 256 KiB are read, announced or not; one byte more is an error that is not tried again.
#[tokio::test]
async fn an_answer_longer_than_the_cap_is_an_error() {
    let fits = "x".repeat(BODY_BYTES_MAX);
    let announced = "x".repeat(BODY_BYTES_MAX + 1);
    let pieces = stream::iter((0..BODY_BYTES_MAX / 1024 + 1).map(|_| Ok::<_, io::Error>("x".repeat(1024))));
    let service =
        Service::new([fits.into_response(), announced.into_response(), Body::from_stream(pieces).into_response()])
            .await;
    let answer = real().fetch(get(service.url("/"))).await.unwrap();
    assert_eq!(answer.body.as_str().map(str::len), Some(BODY_BYTES_MAX));
    for _ in 0..2 {
        let error = real().fetch(get(service.url("/"))).await.unwrap_err();
        assert_eq!((error.kind, error.status, error.attempts), (ToolError::Permanent, Some(200), 1));
    }
}

/// D answer 22: an answer that never ends is cut off.
#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, io::Error>("x".repeat(4096))));
    let service = Service::new([endless.into_response()]).await;
    let error = real().fetch(get(service.url("/"))).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Permanent, 1));
}

/// D answer 20: the timeout covers the body, so a service that drips cannot hold the call.
#[tokio::test]
async fn a_dripping_answer_ends_with_the_attempt() {
    let address = raw(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let request = FetchRequest { timeout: Duration::from_millis(60), retries: 1, ..get(format!("http://{address}/")) };
    let error = real().fetch(request).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Transient, 2));
}

#[tokio::test]
async fn an_answer_whose_head_never_ends_is_cut_off() {
    let address = raw(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(format!("x: {}\r\n", "y".repeat(4000)).as_bytes()).await.is_ok() {}
    })
    .await;
    let error = real().fetch(FetchRequest { retries: 0, ..get(format!("http://{address}/")) }).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Transient, 1));
}

/// D answer 22: no redirect is followed, to whichever host.
#[tokio::test]
async fn a_redirect_is_an_error_and_its_target_is_not_asked() {
    let inside = Service::with(&[]).await;
    for status in [301, 302, 303, 307, 308] {
        let to = [(LOCATION, inside.url("/latest/meta-data"))];
        let service = Service::new([(StatusCode::from_u16(status).unwrap(), to).into_response()]).await;
        let error = real().fetch(get(service.url("/"))).await.unwrap_err();
        assert_eq!((error.kind, error.status, error.attempts), (ToolError::Permanent, Some(status), 1));
        assert!(error.message.contains("redirects are not followed"));
    }
    assert!(inside.asked().is_empty());
}

/// D answer 24: what the model reads of an error names no address and no path.
#[tokio::test]
async fn what_a_service_says_in_an_error_stays_with_the_service() {
    let answer = (StatusCode::INTERNAL_SERVER_ERROR, "at /srv/app.py: password=hunter22").into_response();
    let service = Service::new([answer]).await;
    let error = real().fetch(FetchRequest { retries: 0, ..get(service.url("/secret-path")) }).await.unwrap_err();
    for private in ["hunter22", "secret-path", "127.0.0.1"] {
        assert!(!error.message.contains(private), "{}", error.message);
    }
}
