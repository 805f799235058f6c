//! The page behind the nginx of `docs/guides/tls.md`, word for word but for its ports and its certificate.

use super::{AGENTS, TOKEN, browse, engine_at};
use crate::web::kit::{
    authority::{Authority, Certificate},
    offhook::Offhook,
    tied::{Tied, free_ports},
};
use reqwest::{Client, ClientBuilder, StatusCode, header, redirect::Policy};
use serde_json::json;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(10);
/// A name that browsers take for this machine.
const NAME: &str = "voice.localhost";

/// The guide's file, on the loopback.
fn guide(engine: &Offhook, certificate: &Certificate, [tls, plain]: [u16; 2]) -> String {
    let guide = offhook_kit::project().join("docs/guides/tls.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let text =
        guide.split("```nginx\n").nth(1).and_then(|rest| rest.split("```").next()).expect("nginx's file in the guide");
    let mut own = text.lines().filter(|line| !line.contains("listen [::]")).collect::<Vec<_>>().join("\n");
    for (of_guide, of_test) in [
        ("listen 443 ssl", format!("listen 127.0.0.1:{tls} ssl")),
        ("listen 80", format!("listen 127.0.0.1:{plain}")),
        ("voice.example.com;", format!("{NAME};")),
        ("/etc/ssl/offhook/voice.example.com.pem", certificate.certificate.display().to_string()),
        ("/etc/ssl/offhook/voice.example.com.key", certificate.key.display().to_string()),
        ("http://127.0.0.1:15000;", format!("http://{};", engine.http())),
    ] {
        assert!(own.contains(of_guide), "{of_guide} is not in the guide");
        own = own.replace(of_guide, &of_test);
    }
    own
}

/// Runs it until it is dropped.
async fn nginx(folder: &Path, guide: &str, port: u16) -> Tied {
    std::fs::write(folder.join("offhook.conf"), guide).expect("the test's own folder");
    let path = folder.to_str().expect("a temporary directory with an ordinary name");
    let mut nginx = Tied::start("nginx.sh", &[path], &[], folder, &folder.join("console"));
    let until = Instant::now() + SOON;
    while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
        let console = || std::fs::read_to_string(folder.join("console")).unwrap_or_default();
        assert!(!nginx.has_ended() && Instant::now() < until, "nginx does not listen:\n{}", console());
        sleep(Duration::from_millis(20)).await;
    }
    nginx
}

/// A program elsewhere, which trusts the authority of the certificate and no other.
fn client(authority: &Authority) -> ClientBuilder {
    let pem = std::fs::read(authority.certificate()).expect("a certificate");
    let authority = reqwest::Certificate::from_pem(&pem).expect("a certificate");
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Client::builder().tls_certs_only([authority]).resolve(NAME, here).redirect(Policy::none()).timeout(SOON)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_used_through_the_nginx_of_the_guide() {
    let authority = Authority::set_up();
    let certificate = authority.vouch_for(&format!("DNS:{NAME}"));
    let ports = [free_ports(1), free_ports(1)];
    let public = format!("https://{NAME}:{}", ports[0]);
    let engine = engine_at(3, AGENTS, None, &format!(", public_url: \"{public}\"")).await;
    let folder = tempfile::TempDir::with_prefix("offhook-nginx-").expect("a temporary directory");
    let _nginx = nginx(folder.path(), &guide(&engine, &certificate, ports), ports[0]).await;

    browse("behind.mjs", &engine, &[("PAGE", public.clone())]).await;

    let client = client(&authority).build().expect("a client");
    let asked = async |path: &str| {
        let answer = client.get(format!("{public}{path}")).bearer_auth(TOKEN).send().await;
        answer.unwrap_or_else(|error| panic!("{path}: {error:?}"))
    };
    // Nobody is on the line, so there is one event, and nothing behind it that would push it out of a buffer.
    let mut events = asked("/api/v1/events").await;
    let first =
        timeout(SOON, events.chunk()).await.expect("an event is not held back").expect("a stream").expect("an event");
    assert!(String::from_utf8_lossy(&first).contains("event: live"), "{first:?}");
    drop(events);
    // A text as long as may be, in a body that is longer.
    let long = json!({ "text": engine.read_config() + &"\n".repeat(700_000) });
    let checked = client.post(format!("{public}/api/v1/configuration/check")).bearer_auth(TOKEN).json(&long).send();
    assert_eq!(checked.await.expect("an answer").status(), StatusCode::OK);

    // What must not get through.
    for path in ["/metrics", "/ready", "/live"] {
        assert_eq!(asked(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let other = client.get(format!("{public}/login")).header(header::HOST, "evil.example").send().await;
    assert_eq!(other.expect("an answer").status(), StatusCode::FORBIDDEN);
    let guess = client.post(format!("{public}/api/v1/login")).header("x-forwarded-for", "203.0.113.9");
    let guess = guess.json(&json!({ "name": "admin", "password": "a guess" })).send().await;
    assert_eq!(guess.expect("an answer").status(), StatusCode::UNAUTHORIZED);
    let log = engine.log();
    assert!(log.contains("an attempt to log in was refused") && !log.contains("203.0.113.9"), "{log}");
    let plain = client.get(format!("http://{NAME}:{}/history?words=a", ports[1])).send().await.expect("an answer");
    assert_eq!(plain.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(plain.headers()[header::LOCATION], format!("https://{NAME}/history?words=a"));
}
