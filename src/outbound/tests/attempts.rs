//! Retries, time, and what is sent with each attempt.

use super::*;

/// D16, D answer 20: `retry_count` counts attempts after the first; connection errors, timeouts,
/// 408, 425, 429 and 5xx are tried again.
#[tokio::test]
async fn what_may_work_later_is_tried_again_until_it_works() {
    let service = Service::with(&[503, 500, 429]).await;
    let answer = real().fetch(request(service.url("/meals"))).await.unwrap();
    assert_eq!((answer.status, answer.attempts), (200, 4));
    assert_eq!(answer.body["ok"], true);
    assert_eq!(service.asked().len(), 4);
}

/// D answer 20: 3 retries are up to 4 requests, and the last failure is what is told.
#[tokio::test]
async fn retries_end_with_the_last_failure() {
    let service = Service::with(&[500, 500, 500, 502, 200]).await;
    let error = real().fetch(request(service.url("/"))).await.unwrap_err();
    assert_eq!((error.kind, error.status, error.attempts), (ToolError::Transient, Some(502), 4));
    let service = Service::with(&[429; 4]).await;
    let error = real().fetch(request(service.url("/"))).await.unwrap_err();
    assert_eq!((error.kind, error.status, error.attempts), (ToolError::RateLimit, Some(429), 4));
}

/// D answer 20: other 4xx are final. D answer 24: their error types.
#[tokio::test]
async fn what_will_not_work_later_is_not_tried_again() {
    for (status, kind) in [
        (400, ToolError::Permanent),
        (401, ToolError::Auth),
        (403, ToolError::Auth),
        (404, ToolError::Permanent),
        (409, ToolError::Conflict),
        (410, ToolError::Permanent),
        (422, ToolError::Permanent),
    ] {
        let service = Service::with(&[status]).await;
        let error = real().fetch(request(service.url("/"))).await.unwrap_err();
        assert_eq!((error.kind, error.status, error.attempts), (kind, Some(status), 1));
        assert_eq!(service.asked().len(), 1, "{status}");
    }
}

/// D answer 21: every attempt of a method that writes carries the key.
#[tokio::test]
async fn every_attempt_of_a_write_carries_the_idempotency_key() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let service = Service::with(&[500, 500]).await;
        let headers = vec![("Idempotency-Key".to_owned(), "the definition's own".to_owned())];
        let request = FetchRequest { method: method.into(), headers, ..request(service.url("/")) };
        real().fetch(request).await.unwrap();
        let keys: Vec<_> = service.asked().iter().map(|asked| asked.2["idempotency-key"].clone()).collect();
        assert_eq!(keys, ["key-1"; 3], "{method}");
    }
}

/// D answer 21: without a key a write is tried once, for it may have happened.
#[tokio::test]
async fn a_write_without_a_key_is_tried_once() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let service = Service::with(&[500]).await;
        let request = FetchRequest { method: method.into(), idempotency_key: None, ..request(service.url("/")) };
        let error = real().fetch(request).await.unwrap_err();
        assert_eq!((error.attempts, service.asked().len()), (1, 1), "{method}");
    }
}

/// D answers 21 and 22: reads need no key, and have neither key nor body.
#[tokio::test]
async fn reads_are_tried_again_without_a_key_and_have_no_body() {
    for method in ["GET", "HEAD"] {
        let service = Service::with(&[500]).await;
        let request = FetchRequest { method: method.into(), ..request(service.url("/x?y=1")) };
        let answer = real().fetch(request).await.unwrap();
        assert_eq!((answer.status, answer.attempts), (200, 2));
        for (asked, path, headers, body) in service.asked() {
            assert_eq!((asked.as_str(), path.as_str(), body.len()), (method, "/x?y=1", 0));
            assert!(!headers.contains_key("idempotency-key") && !headers.contains_key("content-type"));
        }
    }
}

/// D2, D16, D17: the logic is in an external endpoint; body and headers reach it as written, JSON unless the definition says otherwise.
#[tokio::test]
async fn the_body_goes_out_as_json_with_the_headers_of_the_definition() {
    let service = Service::with(&[]).await;
    let headers =
        vec![("Authorization".to_owned(), "Bearer t0ken".to_owned()), ("X-Name".to_owned(), "Zoë".to_owned())];
    real().fetch(FetchRequest { headers, ..request(service.url("/")) }).await.unwrap();
    let asked = service.asked();
    let (method, _, headers, body) = &asked[0];
    assert_eq!(method, "POST");
    assert_eq!(serde_json::from_slice::<Value>(body).unwrap(), json!({ "meal": "lunch" }));
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["authorization"], "Bearer t0ken");
    assert_eq!(headers["x-name"].as_bytes(), "Zoë".as_bytes());
}

/// D answer 20: delay × 2^n up to 8 s, no jitter; a 429 says itself when, up to the cap.
#[test]
fn delays_double_up_to_the_cap() {
    let delays = |again| (0..6).map(move |tried| delay(again, Duration::from_millis(500), tried).unwrap().as_millis());
    assert!(delays(Again::Backoff).eq([500, 1000, 2000, 4000, 8000, 8000]));
    assert!(delays(Again::After(Duration::from_secs(3))).eq([3000; 6]));
    assert!(delays(Again::After(Duration::from_secs(3600))).eq([8000; 6]));
    assert_eq!(delay(Again::No, Duration::from_millis(500), 0), None);
    assert_eq!(delay(Again::Backoff, Duration::MAX, u32::MAX), Some(DELAY_MAX));
}

/// D answer 20: a timeout is of one attempt, and is tried again.
#[tokio::test]
async fn a_silent_service_is_given_up_and_tried_again() {
    let address = raw(|stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let request =
        FetchRequest { timeout: Duration::from_millis(20), retries: 2, ..request(format!("http://{address}/")) };
    let error = real().fetch(request).await.unwrap_err();
    assert_eq!((error.kind, error.status, error.attempts), (ToolError::Transient, None, 3));
}

/// D answer 20: the tool's remaining time bounds all attempts, whatever the timeout of one is.
#[tokio::test]
async fn the_time_left_bounds_all_attempts() {
    let address = raw(|stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let request = FetchRequest { time_left: Duration::from_millis(50), ..request(format!("http://{address}/")) };
    let error = real().fetch(request).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Transient, 1), "ten seconds were given to one attempt");
}

/// D answer 20: nobody waits for an attempt that has no time left.
#[tokio::test]
async fn a_wait_beyond_the_time_left_is_not_begun() {
    let service = Service::with(&[500]).await;
    let began = Instant::now();
    let hour = Duration::from_secs(3600);
    let request = FetchRequest { time_left: Duration::from_secs(7), retry_delay: hour, ..request(service.url("/")) };
    let error = real().fetch(request).await.unwrap_err();
    assert_eq!((error.kind, error.status, error.attempts), (ToolError::Transient, Some(500), 1));
    assert!(began.elapsed() < Duration::from_secs(7));
}

#[tokio::test]
async fn absurd_numbers_in_a_definition_neither_overflow_nor_run_for_ever() {
    let service = Service::with(&[500; 20]).await;
    let request = FetchRequest {
        retries: u32::MAX,
        timeout: Duration::MAX,
        time_left: Duration::MAX,
        retry_delay: Duration::ZERO,
        ..request(service.url("/"))
    };
    let error = real().fetch(request).await.unwrap_err();
    assert_eq!(error.attempts, 1 + RETRIES_MAX);
}

/// D answer 20: connection errors are tried again.
#[tokio::test]
async fn a_service_that_does_not_listen_is_tried_again() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let error = real().fetch(request(format!("http://{free}/"))).await.unwrap_err();
    assert_eq!((error.kind, error.status, error.attempts), (ToolError::Transient, None, 4));
    let broken = raw(|stream| async move { drop(stream) }).await;
    let error = real().fetch(request(format!("http://{broken}/"))).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Transient, 4));
}

/// D answer 9: the external call cannot be undone, so it is journalled; D answer 26: without secrets.
#[tokio::test]
async fn one_line_of_the_journal_tells_of_each_call_and_holds_nothing_private() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let service = Service::with(&[500]).await;
    let headers = vec![("Authorization".to_owned(), "Bearer s3cret-token".to_owned())];
    let url = service.url("/users/anna-miller?phone=4917055501");
    let names = Names::new(&[]);
    let (outbound, registry) = outbound(names, PUBLIC_ONLY);
    outbound.fetch(FetchRequest { headers, ..request(url) }).await.unwrap();
    outbound.fetch(FetchRequest { allowed_hosts: vec![], ..request(service.url("/inside")) }).await.unwrap_err();
    let lines = capture.lines();
    let journal: Vec<_> = lines.iter().filter(|line| line.contains("external call")).collect();
    assert_eq!(journal.len(), 2, "{lines:#?}");
    for part in ["tool=\"save_meal\"", "call=\"call-1\"", "method=\"POST\"", "host=\"127.0.0.1\"", "status=200"] {
        assert!(journal[0].contains(part), "{part}: {}", journal[0]);
    }
    for part in ["attempts=2", "bytes=11", "outcome=\"ok\"", "duration_ms="] {
        assert!(journal[0].contains(part), "{part}: {}", journal[0]);
    }
    assert!(journal[1].contains("outcome=\"blocked\"") && journal[1].contains("attempts=0"), "{}", journal[1]);
    let journal = journal.iter().map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
    for private in ["anna-miller", "4917055501", "s3cret-token", "lunch", "key-1", "/inside"] {
        assert!(!journal.contains(private), "{private}");
    }
    let ours = lines.iter().filter(|line| line.contains("offhook") || line.contains("journal"));
    assert!(ours.clone().count() >= 2 && ours.clone().all(|line| !line.contains("s3cret-token")));
    let requests = "offhook_tool_http_requests_total";
    assert_eq!((count(&registry, requests, Some("ok")), count(&registry, requests, Some("blocked"))), (1, 1));
    assert_eq!(count(&registry, "offhook_tool_http_retries_total", None), 1);
}

/// D answer 9: a call that the caller's hanging up cuts off is journalled too.
#[tokio::test]
async fn a_call_that_is_cut_off_leaves_its_line() {
    let capture = LogCapture::new();
    let _guard = capture.start();
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let arrived = Arc::new(Mutex::new(Some(arrived)));
    let address = raw(move |stream| {
        let arrived = arrived.lock().unwrap().take();
        async move {
            let _held = stream;
            arrived.map(|arrived| arrived.send(()));
            std::future::pending::<()>().await;
        }
    })
    .await;
    let (outbound, registry) = outbound(Names::new(&[]), PUBLIC_ONLY);
    tokio::select! {
        _ = outbound.fetch(request(format!("http://{address}/"))) => panic!("nothing was answered"),
        _ = arrival => {}
    }
    assert_eq!(count(&registry, "offhook_tool_http_requests_total", Some("cancelled")), 1);
    let lines = capture.lines();
    let told = |line: &String| line.contains("outcome=\"cancelled\"") && line.contains("attempts=1");
    assert!(lines.iter().any(told), "{lines:#?}");
}
