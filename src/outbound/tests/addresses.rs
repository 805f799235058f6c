//! Where requests may go and what they may be made of.

use super::*;

const INSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// For tests on loopback: all of it is public but 127.0.0.1.
fn all_but_one(address: IpAddr) -> bool {
    address != IpAddr::V4(INSIDE)
}

fn unlisted(url: impl Into<String>) -> FetchRequest {
    FetchRequest { allowed_hosts: Vec::new(), ..get(url) }
}

/// D answer 25: an address that is written out is checked in each of its spellings.
#[tokio::test]
async fn no_spelling_of_an_inside_address_gets_through() {
    let service = Service::with(&[]).await;
    let port = service.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "169.254.169.254",
        "10.0.0.1",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
    ] {
        let error = real().fetch(unlisted(format!("http://{host}:{port}/"))).await.unwrap_err();
        assert_eq!((error.kind, error.attempts), (ToolError::Permanent, 0), "{host}");
        assert!(!error.message.contains("127"), "{}", error.message);
    }
    assert!(service.asked().is_empty());
}

/// D answer 25: a name is checked by what it resolves to, with the system's own resolver.
#[tokio::test]
async fn a_name_for_an_inside_address_does_not_get_through() {
    let service = Service::with(&[]).await;
    for host in ["localhost", "LOCALHOST"] {
        let error = real().fetch(unlisted(format!("http://{host}:{}/", service.address.port()))).await.unwrap_err();
        assert_eq!((error.kind, error.attempts), (ToolError::Permanent, 1), "{host}: not tried again");
    }
    assert!(service.asked().is_empty());
}

/// D answer 25: the operator's list lets hosts through, by name or address, with or without a port.
#[tokio::test]
async fn the_operators_list_opens_exactly_what_it_names() {
    let service = Service::with(&[]).await;
    let port = service.address.port();
    let fetch = |url: String, listed: String| real().fetch(FetchRequest { allowed_hosts: vec![listed], ..get(url) });
    assert!(fetch(service.url("/"), "127.0.0.1".into()).await.is_ok());
    assert!(fetch(service.url("/"), format!("127.0.0.1:{port}")).await.is_ok());
    assert!(fetch(format!("http://localhost:{port}/"), "localhost".into()).await.is_ok());
    let before = service.asked().len();
    assert!(fetch(service.url("/"), "127.0.0.1:1".into()).await.is_err());
    assert!(fetch(service.url("/"), "127.0.0.2".into()).await.is_err());
    assert!(fetch(format!("http://localhost:{port}/"), "127.0.0.1".into()).await.is_err(), "names are not addresses");
    assert_eq!(service.asked().len(), before);
}

/// Two services at two addresses, of the same port.
async fn on_one_port() -> (Service, Service) {
    loop {
        let outside = TcpListener::bind((OUTSIDE, 0)).await.unwrap();
        // Somebody else may have it there.
        if let Ok(inside) = TcpListener::bind((INSIDE, outside.local_addr().unwrap().port())).await {
            return (Service::at(outside, []), Service::at(inside, []));
        }
    }
}

/// D answer 25: the address that was checked is the one that is connected to; there is no second look-up
/// that could bring another.
#[tokio::test]
async fn a_name_that_changes_its_address_is_connected_to_where_it_was_checked_or_not_at_all() {
    let (outside, inside) = on_one_port().await;
    let names = Names::new(&[&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.1"]]);
    let (outbound, _) = outbound(Arc::clone(&names), all_but_one);
    let url = format!("http://rebind.example:{}/", outside.address.port());

    assert!(outbound.fetch(unlisted(&url)).await.is_ok());
    assert_eq!((outside.asked().len(), names.asked.lock().unwrap().len()), (1, 1), "one look-up, one connection");

    let (fresh, _) = super::outbound(Arc::clone(&names), all_but_one);
    let error = fresh.fetch(unlisted(&url)).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Permanent, 1));
    assert!(inside.asked().is_empty());
}

/// D answer 25: one inside address among many outside is enough.
#[tokio::test]
async fn every_address_of_a_name_has_to_be_good() {
    let outside = Service::on(OUTSIDE, []).await;
    let (outbound, _) = outbound(Names::new(&[&["127.0.0.2", "127.0.0.1"]]), all_but_one);
    let error =
        outbound.fetch(unlisted(format!("http://mixed.example:{}/", outside.address.port()))).await.unwrap_err();
    assert_eq!(error.kind, ToolError::Permanent);
    assert!(outside.asked().is_empty());
}

/// D answer 25: a connection that one tool may use is not lent to one that may not.
#[tokio::test]
async fn a_connection_to_a_listed_host_does_not_serve_those_who_have_not_listed_it() {
    let inside = Service::on(INSIDE, []).await;
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let (outbound, _) = outbound(Arc::clone(&names), all_but_one);
    let url = format!("http://crm.example:{}/", inside.address.port());
    let listed = FetchRequest { allowed_hosts: vec!["crm.example".into()], ..get(&url) };
    assert!(outbound.fetch(listed).await.is_ok());
    assert!(outbound.fetch(unlisted(&url)).await.is_err());
    assert_eq!(inside.asked().len(), 1);
}

/// D answer 20: a name that does not resolve is a connection error like any other.
#[tokio::test]
async fn a_name_without_an_address_is_tried_again() {
    let (outbound, _) = outbound(Names::new(&[]), PUBLIC_ONLY);
    let error = outbound.fetch(unlisted("http://nowhere.example/")).await.unwrap_err();
    assert_eq!((error.kind, error.attempts), (ToolError::Transient, 4));
}

/// D18, D answer 10: what cannot be sent as it is meant is not sent at all.
#[tokio::test]
async fn urls_that_are_no_plain_http_addresses_are_refused() {
    let service = Service::with(&[]).await;
    let port = service.address.port();
    for url in [
        format!("http://user:pass@127.0.0.1:{port}/"),
        format!("http://user@127.0.0.1:{port}/"),
        format!("ftp://127.0.0.1:{port}/"),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
        "http://".to_owned(),
        "/meals".to_owned(),
        String::new(),
        format!("http://127.0.0.1:{port}/a\r\nX-Injected: 1"),
        format!("http://127.0.0.1:{port}/a\tb"),
        format!("http://127.0.0.1:{port}/{}", "x".repeat(9000)),
    ] {
        let error = real().fetch(get(&url)).await.unwrap_err();
        assert_eq!((error.kind, error.attempts), (ToolError::Validation, 0), "{url}");
    }
    let error = real().fetch(FetchRequest { method: "TRACE".into(), ..request(service.url("/")) }).await.unwrap_err();
    assert_eq!(error.kind, ToolError::Validation);
    assert!(service.asked().is_empty());
}

/// D answer 10: header values with control characters fail.
#[tokio::test]
async fn a_header_cannot_carry_a_second_one() {
    let service = Service::with(&[]).await;
    for (name, value) in [
        ("X-Name", "a\r\nX-Admin: 1"),
        ("X-Name", "a\nX-Admin: 1"),
        ("X-Name", "a\0"),
        ("X-Name", "a\tb"),
        ("X-Name", "a\u{85}b"),
        ("X-Name\r\nX-Admin", "1"),
        ("X Name", "1"),
        ("", "1"),
    ] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let error = real().fetch(FetchRequest { headers, ..request(service.url("/")) }).await.unwrap_err();
        assert_eq!((error.kind, error.attempts), (ToolError::Validation, 0), "{name:?}: {value:?}");
    }
    let key = Some("k\r\nX-Admin: 1".to_owned());
    let error = real().fetch(FetchRequest { idempotency_key: key, ..request(service.url("/")) }).await.unwrap_err();
    assert_eq!(error.kind, ToolError::Validation);
    assert!(service.asked().is_empty());
}

/// D16: headers that belong to the connection are offhook's own, whatever a definition says.
#[tokio::test]
async fn a_definition_cannot_set_the_headers_of_the_connection() {
    let service = Service::with(&[]).await;
    let headers = [
        ("Host", "evil.example"),
        ("Content-Length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("X-Kept", "yes"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    real().fetch(FetchRequest { headers, ..request(service.url("/")) }).await.unwrap();
    let asked = service.asked();
    let (_, _, headers, body) = &asked[0];
    assert_eq!(headers["host"], service.address.to_string());
    assert_eq!(headers["content-length"], body.len().to_string());
    assert!(!headers.contains_key("transfer-encoding") && !headers.contains_key("connection"));
    assert_eq!(headers["x-kept"], "yes");
}

/// D16: what is too much to send is refused before it is.
#[tokio::test]
async fn requests_are_bounded() {
    let service = Service::with(&[]).await;
    let body = Some(json!("x".repeat(BODY_BYTES_MAX)));
    let headers = vec![("X-Long".to_owned(), "y".repeat(20_000))];
    for request in
        [FetchRequest { body, ..request(service.url("/")) }, FetchRequest { headers, ..request(service.url("/")) }]
    {
        assert_eq!(real().fetch(request).await.unwrap_err().kind, ToolError::Validation);
    }
    assert!(service.asked().is_empty());
}
