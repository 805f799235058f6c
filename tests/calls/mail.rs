//! What callers leave for people: mailed after the call, by a real mail server, over TLS.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        authority::Authority,
        mail_server::{MailServer, Manner},
        offhook::Offhook,
        phone::Phone,
    },
    ms,
};

const LOGIN: (&str, &str) = ("offhook", "a-secret-of-the-test");
const WORDS: &str = "Please call Ada back about the engine";

/// An agent that takes a message, asks for a transcript, and hangs up.
fn agents(mail: &str) -> String {
    format!(
        "default_context: front\nmail: {{ {mail}, from: \"offhook <offhook@example.com>\", mailboxes: {{ office: \
         office@example.com, support: support@example.com }} }}\n\
         providers:\n  script:\n    scripted:\n      script:\n        - say: What may I write down?\n        \
         - call: {{ tool: take_message, arguments: {{ message: \"{WORDS}\", callback: \"15550111\", to: support }} }}\n        \
         - call: {{ tool: request_transcript }}\n        - hang_up: Goodbye\n\
         contexts:\n  front: {{ prompt: A test, provider: script, mailbox: office, tools: [hangup_call, \
         take_message, request_transcript] }}\n"
    )
}

async fn one_call(mail: &str) -> (Asterisk, Offhook) {
    let asterisk = Asterisk::start(Options::default()).await;
    let offhook = Offhook::attached(&asterisk, &agents(mail)).await;
    let says = silence(ms(60_000));
    let mut caller = Phone::call_as(asterisk.sip_port(), "7000", says, "Ada Byron", "15550199").await;
    caller.wait_ended(SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    (asterisk, offhook)
}

async fn a_message_and_a_transcript_are_mailed_over_tls_after_the_call() {
    let authority = Authority::set_up();
    let certificate = authority.vouch_for("IP:127.0.0.1");
    for tls in ["implicit", "starttls"] {
        let manner =
            Manner { tls, certificate: Some(&certificate), login: Some(LOGIN), defers: 1, ..Manner::default() };
        let server = MailServer::start(manner).await;
        let (_asterisk, offhook) = one_call(&format!(
            "server: 127.0.0.1, port: {}, tls: {tls}, ca_file: \"{}\", username: {}, password: \"{}\"",
            server.port,
            authority.certificate().display(),
            LOGIN.0,
            LOGIN.1
        ))
        .await;
        let mut taken = server.wait_taken(2, SOON).await;
        taken.sort_by_key(|mail| mail["to"].to_string());
        for (mail, to) in taken.iter().zip(["office@example.com", "support@example.com"]) {
            assert_eq!(mail["to"], serde_json::json!([to]), "{tls}");
            assert_eq!(mail["from"], "offhook@example.com", "{tls}");
            assert_eq!((&mail["tls"], &mail["user"]), (&true.into(), &LOGIN.0.into()), "{tls}");
        }
        let text = |index: usize| taken[index]["data"].as_str().unwrap().replace("=\r\n", "");
        let (transcript, message) = (text(0), text(1));
        for part in ["Subject: Message from a caller (front)", WORDS, "Ada Byron, 15550199", "Call back: 15550111"] {
            assert!(message.contains(part), "{tls}: {part} in {message}");
        }
        for part in ["Subject: Transcript of a call (front)", "Agent: What may I write down?", "Agent: Goodbye"] {
            assert!(transcript.contains(part), "{tls}: {part} in {transcript}");
        }
        offhook.metric_is("offhook_mail_sent_total", 2.0).await;
        offhook.metric_is("offhook_mail_retries_total", 1.0).await;
        for private in [WORDS, "15550199", "15550111", "Byron", LOGIN.1] {
            assert!(!offhook.log().contains(private), "{private} reached the log");
        }
    }
}

async fn a_server_that_cannot_prove_who_it_is_gets_nothing() {
    let authority = Authority::set_up();
    let certificate = authority.vouch_for("IP:127.0.0.1");
    for tls in ["implicit", "starttls"] {
        let manner = Manner { tls, certificate: Some(&certificate), login: Some(LOGIN), ..Manner::default() };
        let server = MailServer::start(manner).await;
        let login = format!("username: {}, password: \"{}\"", LOGIN.0, LOGIN.1);
        let (_asterisk, offhook) =
            one_call(&format!("server: 127.0.0.1, port: {}, tls: {tls}, {login}", server.port)).await;
        offhook.wait_metric("offhook_mail_retries_total", 1.0, SOON).await;
        assert!(server.taken().is_empty(), "{tls}");
        assert!(
            offhook.log().contains("kind=\"tls\"") || offhook.log().contains("kind=\"unreachable\""),
            "{}",
            offhook.log()
        );
    }
}

async fn what_a_server_refuses_is_counted_and_the_next_mail_is_sent() {
    let manner = Manner { tls: "none", refuses: Some("support"), ..Manner::default() };
    let server = MailServer::start(manner).await;
    let (_asterisk, mut offhook) = one_call(&format!("server: 127.0.0.1, port: {}, tls: none", server.port)).await;
    let taken = server.wait_taken(1, SOON).await;
    assert_eq!(taken[0]["to"], serde_json::json!(["office@example.com"]));
    offhook.metric_is("offhook_mail_dropped_total{cause=\"refused\"}", 1.0).await;
    offhook.signal("TERM").await;
    assert!(offhook.wait_exit(SOON).await.success());
}

crate::scenes! {
    both:
        what_a_server_refuses_is_counted_and_the_next_mail_is_sent;
    // The emulated mail server speaks no TLS.
    only_real:
        a_message_and_a_transcript_are_mailed_over_tls_after_the_call,
        a_server_that_cannot_prove_who_it_is_gets_nothing;
}
