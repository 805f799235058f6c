//! `offhook init`: a few flags or answers, and there is an installation that takes calls.

use crate::first::{
    Ran, SOON,
    kit::{
        asterisk::{ARI_USER, Asterisk, Options},
        audio::silence,
        authority::Authority,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        tied::free_ports,
        vendor::{OpenAi, Opening, Scenario, Vendor},
    },
    nothing_is_left, offhook,
};
use std::{os::unix::fs::PermissionsExt as _, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

fn folder() -> TempDir {
    TempDir::with_prefix("offhook-init-").expect("a temporary directory")
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Flags that lead to this Asterisk and to ports of the test's own.
fn flags(asterisk: &Asterisk, place: &Place) -> Vec<String> {
    let rtp = free_ports(400);
    let flags = format!(
        "init --yes --ari-url {} --ari-user {ARI_USER} --http 127.0.0.1:{} --audiosocket-port {} --rtp-ports {rtp}-{} \
         --context front --extension 7300 --output made",
        asterisk.ari_url(),
        place.http,
        place.audiosocket,
        rtp + 399
    );
    flags.split_whitespace().map(str::to_owned).collect()
}

async fn init(folder: &Path, flags: &[String], more: &[&str], env: &[(&str, String)]) -> Ran {
    let all: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    offhook(folder, &all, env, "").await
}

/// Loud moments of what a phone has heard.
fn loud(phone: &Phone) -> Duration {
    phone.heard().loud_spans().iter().map(|span| span.length()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_few_flags_to_a_call_that_is_answered() {
    let place = Place::free();
    // The dialplan is written before the Asterisk that includes it is there.
    let home = folder();
    let drafted = "init --yes --offline --provider attendant --context front --extension 7300 --output draft";
    let drafted: Vec<&str> = drafted.split(' ').collect();
    assert_eq!(offhook(home.path(), &drafted, &[], "").await.code, 0);
    let dialplan =
        format!("{}\n[lab-callers](+)\ninclude => offhook\n", read(home.path(), "draft/extensions_offhook.conf"));
    let asterisk = Asterisk::start(Options { dialplan, ..Options::default() }).await;

    let password = [("ARI_PASSWORD", asterisk.ari_password().to_owned())];
    let ran = init(home.path(), &flags(&asterisk, &place), &["--provider", "attendant"], &password).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in [
        "audiosocket/slin: a test call is heard both ways",
        "providers.agent (pipeline): a session was set up",
        "Written: made/offhook.yaml, made/extensions_offhook.conf, made/asterisk_settings.txt\n",
        "  4. offhook doctor --config made/offhook.yaml\n  5. offhook run --config made/offhook.yaml\nThen dial 7300, and see the call on http://127.0.0.1:",
    ] {
        assert!(ran.out.contains(part), "{part:?}\n{}", ran.out);
    }
    // On a busy machine audio takes long there and back, which is worth a warning and is not a problem.
    assert!(ran.out.contains("All is well.") || ran.out.contains("No problems, "), "{}", ran.out);
    nothing_is_left(&asterisk).await;
    let yaml = read(home.path(), "made/offhook.yaml");
    assert!(!yaml.contains(asterisk.ari_password()) && yaml.contains("password: ${ARI_PASSWORD}"), "{yaml}");
    let config = home.path().join("made/offhook.yaml").display().to_string();
    let checked = offhook(home.path(), &["check", &config], &password, "").await;
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{}", checked.out);
    let examined = offhook(home.path(), &["doctor", "--config", &config], &password, "").await;
    assert_eq!(examined.code, 0, "{}", examined.out);
    assert!(examined.out.contains("destinations.people: reception@offhook-transfer exists"), "{}", examined.out);

    let engine = Offhook::launch(place, &yaml, Launch { env: &password, ..Launch::default() }).await;
    engine.wait_ready(true).await;
    let mut phone = Phone::call(asterisk.sip_port(), "7300", silence(Duration::from_secs(60))).await;
    let until = Instant::now() + SOON;
    while loud(&phone) < Duration::from_millis(1_500) {
        assert!(Instant::now() < until, "no greeting: {:?}\n{}", loud(&phone), engine.log());
        sleep(Duration::from_millis(50)).await;
    }
    // The written list: 9 says goodbye.
    phone.dtmf('9').await;
    assert_eq!(engine.wait_end_reason(SOON).await, "agent_hung_up", "{}", engine.log());
    asterisk.wait_empty(SOON).await;
    // The file keeps what happened.
    let records = engine.folder().join("records").display().to_string();
    let until = Instant::now() + SOON;
    while !offhook(home.path(), &["calls", "--records", &records], &[], "").await.out.contains("agent_hung_up") {
        assert!(Instant::now() < until, "no record:\n{}", engine.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_was_told_wrong_is_told_back_and_the_files_are_there_all_the_same() {
    let vendor = Vendor::start::<OpenAi>(Scenario { otherwise: Opening::Refuse(401), ..Scenario::default() }).await;
    let asterisk = Asterisk::start(Options::default()).await;
    let home = folder();
    let base = vendor.options()["base_url"].as_str().expect("an address").to_owned();
    let env = [("ARI_PASSWORD", "wrong-password".to_owned()), ("OPENAI_API_KEY", "wrong-key".to_owned())];
    let more = ["--provider", "openai_realtime", "--base-url", &base];
    let ran = init(home.path(), &flags(&asterisk, &Place::free()), &more, &env).await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for part in [
        "refuses the user \"offhook\" or its password",
        "providers.agent (openai_realtime): the key is refused",
        "2 problems",
        "The files are written all the same",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let all =
        ran.out + &ran.err + &read(home.path(), "made/offhook.yaml") + &read(home.path(), "made/asterisk_settings.txt");
    assert!(!all.contains("wrong-password") && !all.contains("wrong-key"), "{all}");
}

#[tokio::test]
async fn every_provider_and_every_dialplan_makes_a_configuration_without_mistakes() {
    let home = folder();
    let keys = ["OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPGRAM_API_KEY", "ELEVENLABS_API_KEY", "ARI_PASSWORD"];
    let env: Vec<(&str, String)> = keys.map(|name| (name, "some-secret".to_owned())).into();
    let kinds = ["openai_realtime", "gemini_live", "deepgram_agent", "elevenlabs_agent", "pipeline", "attendant"];
    for kind in kinds {
        for (pbx, transport) in [("asterisk", "rtp"), ("freepbx", "audiosocket"), ("asterisk", "websocket")] {
            let made = format!("{kind}-{pbx}-{transport}");
            let line = format!(
                "init --yes --offline --provider {kind} --agent-id agent_1 --pbx {pbx} --transport {transport} --bind 0.0.0.0 \
                 --advertise offhook.internal --ari-url https://pbx.internal:8089 --output {made}"
            );
            let ran = offhook(home.path(), &line.split_whitespace().collect::<Vec<_>>(), &[], "").await;
            assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
            let ran = offhook(home.path(), &["check", &format!("{made}/offhook.yaml")], &env, "").await;
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{made}: {}", ran.out);
            let dialplan = read(home.path(), &format!("{made}/extensions_offhook.conf"));
            let yaml = read(home.path(), &format!("{made}/offhook.yaml"));
            let target = yaml.lines().find_map(|line| line.trim().strip_prefix("context: ")).expect("a destination");
            assert!(dialplan.contains(&format!("\n[{target}]\nexten => reception,1,")), "{made}: {dialplan}");
            assert!(dialplan.contains("Stasis(offhook,reception)"), "{made}: {dialplan}");
            assert!(!yaml.contains('@'), "{made}: a gap in {yaml}");
            assert!(yaml.contains(&format!("\n  default: {transport}/")), "{made}: {yaml}");
        }
    }
}

/// Nothing comes to this machine, and Asterisk has to be reached from it.
#[tokio::test]
async fn audio_by_websocket_is_asked_no_address_and_asterisk_listens_for_the_machine_of_offhook() {
    for (url, listens) in [
        (
            "https://pbx.internal:8089",
            "\nbindport = 8088\n; It listens on all addresses: let a firewall pass this machine \
         alone.\ntlsenable = yes\ntlsbindaddr = 0.0.0.0:8089\n",
        ),
        ("https://[fd00::7]:8088/pbx", "\ntlsbindaddr = [::]:8088\n"),
        ("https://[fd00::7]:8088/pbx", "\nbindport = 8089\n"),
        ("https://[fd00::7]:8088/pbx", "\nprefix = /pbx\n"),
        ("http://pbx.internal", "\nbindaddr = 0.0.0.0\nbindport = 80\n"),
        ("http://127.0.0.1:8088", "\nbindaddr = 127.0.0.1\nbindport = 8088\n"),
        ("http://[::1]:18088", "\nbindaddr = ::1\nbindport = 18088\n"),
    ] {
        let home = folder();
        // Provider, URL, user, transport, name, sentence, extension, folder.
        let lines = format!("attendant\n{url}\n\nwebsocket\n\n\n\nmade\n");
        let ran = offhook(home.path(), &["init", "--offline"], &[], &lines).await;
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(!ran.out.contains("that audio comes to"), "{}", ran.out);
        let yaml = read(home.path(), "made/offhook.yaml");
        assert!(yaml.contains("\n  default: websocket/slin16 ") && yaml.contains("bind: 127.0.0.1:9092\n"), "{yaml}");
        let settings = read(home.path(), "made/asterisk_settings.txt");
        assert!(settings.contains(listens), "{url}: {settings}");
    }
}

/// What `asterisk_settings.txt` says of each file.
fn files(settings: &str) -> Vec<(String, String)> {
    let parts = settings.split("; In /etc/asterisk/").skip(1).filter_map(|part| part.split_once(":\n"));
    parts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// The port, TLS and the password, whatever is in it, are what a real Asterisk reads from the files.
#[tokio::test(flavor = "multi_thread")]
async fn what_it_writes_for_asterisk_is_copied_there_and_lets_offhook_in() {
    let authority = Authority::set_up();
    let certificate = authority.vouch_for("IP:127.0.0.1");
    let trusted = ("SSL_CERT_FILE", authority.certificate().display().to_string());
    for scheme in ["http", "https"] {
        let (home, port) = (folder(), free_ports(1));
        let password = ("ARI_PASSWORD", r##"a;s\e\;c;--r "e" 't # [x] => \"##.to_owned());
        let line = format!(
            "init --yes --offline --write-secrets --provider attendant --ari-url {scheme}://127.0.0.1:{port} --ari-user some.user \
             --output made"
        );
        let ran = offhook(home.path(), &line.split(' ').collect::<Vec<_>>(), std::slice::from_ref(&password), "").await;
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let mode = home.path().join("made/asterisk_settings.txt").metadata().expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let settings = read(home.path(), "made/asterisk_settings.txt")
            .replace("/etc/asterisk/keys/asterisk.pem", &certificate.certificate.display().to_string())
            .replace("/etc/asterisk/keys/asterisk.key", &certificate.key.display().to_string())
            // Where the other server, without TLS, would listen.
            .replace("bindport = 8088", &format!("bindport = {}", free_ports(1)));
        let settings = files(&settings);
        assert_eq!(settings.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["http.conf", "ari.conf"]);
        let _asterisk = Asterisk::start(Options { settings, ..Options::default() }).await;
        let config = ["doctor", "--config", "made/offhook.yaml"];
        let examined = offhook(home.path(), &config, &[password, trusted.clone()], "").await;
        let taken = format!(" at 127.0.0.1:{port} takes user and password");
        assert!(examined.out.contains(&taken), "{scheme}: {}", examined.out);
        let wrong = ("ARI_PASSWORD", "a".to_owned());
        let examined = offhook(home.path(), &config, &[wrong, trusted.clone()], "").await;
        let says = "refuses the user \"some.user\" or its password";
        assert!(examined.out.contains(says), "{scheme}: {}", examined.out);
    }
}

#[tokio::test]
async fn a_password_that_asterisk_cannot_read_is_told_before_anything_is_written() {
    let home = folder();
    let line = ["init", "--yes", "--offline", "--write-secrets", "--output", "made"];
    let ran = offhook(home.path(), &line, &[("ARI_PASSWORD", " blank".to_owned())], "").await;
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.err.contains("ARI_PASSWORD begins or ends with a blank") && !ran.err.contains("blank\""),
        "{}",
        ran.err
    );
    assert!(!home.path().join("made").exists());
    // Where the password is not written, what has to be known is.
    let ran = offhook(home.path(), &[&line[..3], &line[4..]].concat(), &[], "").await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let settings = read(home.path(), "made/asterisk_settings.txt");
    assert!(
        settings.contains("the one that offhook has in ARI_PASSWORD; each semicolon of it is written \\;"),
        "{settings}"
    );
}

#[tokio::test]
async fn nothing_is_written_over_and_only_force_says_otherwise() {
    let home = folder();
    let line = ["init", "--yes", "--offline", "--output", "."];
    std::fs::write(home.path().join("offhook.yaml"), "mine\n").expect("the test's own directory");
    let ran = offhook(home.path(), &line, &[], "").await;
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "offhook init: ./offhook.yaml would be overwritten; nothing was written: name another --output, or write --force\n"
    );
    assert_eq!(read(home.path(), "offhook.yaml"), "mine\n");
    assert!(!home.path().join("extensions_offhook.conf").exists());
    let ran = offhook(home.path(), &[&line[..], &["--force"]].concat(), &[], "").await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(read(home.path(), "offhook.yaml").contains("default_context: reception"));
}

#[tokio::test]
async fn answers_may_come_from_a_terminal_s_lines_and_secrets_are_kept_from_others() {
    let home = folder();
    let secret = "a \"quoted\" $ecret `with` \\ all";
    // Provider, URL, user, password, transport, bind, name, sentence, extension, folder.
    let lines =
        format!("attendant\n\n\n{secret}\n\nnonsense\n127.0.0.1\nfront desk\nfront\nAll costs ${{1}} #!\n\nmade\n");
    let ran = offhook(home.path(), &["init", "--offline", "--write-secrets"], &[], &lines).await;
    // The secret is asked for after everything else: the first lines are the questions in their order.
    assert_eq!(ran.code, 2, "{}", ran.out);
    let lines =
        format!("attendant\n\n\n\nnonsense\n127.0.0.1\nfront desk\nfront\nAll costs ${{1}} #!\n\n{secret}\nmade\n");
    let ran = offhook(home.path(), &["init", "--offline", "--write-secrets"], &[], &lines).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("no IP address") && ran.out.contains("up to 40 letters, digits, _ and -"), "{}", ran.out);
    assert!(!ran.out.contains("ecret `with`") && !read(home.path(), "made/offhook.yaml").contains("ecret `with`"));
    let mode = home.path().join("made/offhook.env").metadata().expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shell = tokio::process::Command::new("sh")
        .args(["-c", "set -a; . made/offhook.env; printf %s \"$ARI_PASSWORD\""])
        .current_dir(home.path())
        .output();
    assert_eq!(String::from_utf8_lossy(&shell.await.expect("sh").stdout), secret);
    assert!(read(home.path(), "made/offhook.yaml").contains(r##"greeting: "All costs $${1} #!""##));
}

/// An answer that makes no configuration is told at once, and asked for again.
#[tokio::test]
async fn each_answer_is_checked_as_it_is_given_and_none_is_lost() {
    let home = folder();
    // Provider, URL, user, transport, bind, advertise, name, sentence, extension, folder.
    let lines = "foo\nattendant\nlocalhost\nhttp://127.0.0.1:8088\n\npigeon\n\n10.0.0.7\nhttp://pbx\npbx\n\n\n\nmade\n";
    let ran = offhook(home.path(), &["init", "--offline", "--rtp-ports", "24300-24398"], &[], lines).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for told in [
        "there are: openai_realtime, gemini_live,",
        "is not an http:// or https:// address; write it without credentials",
        "there are: audiosocket, rtp, websocket",
        "HOST:PORT",
    ] {
        assert!(ran.out.contains(told), "{told}\n{}", ran.out);
    }
    let yaml = read(home.path(), "made/offhook.yaml");
    assert!(yaml.contains("  calls: 50 ") && yaml.contains("advertise: pbx:9092"), "{yaml}");
}

#[tokio::test]
async fn the_language_is_asked_for_and_offhook_speaks_it() {
    let home = folder();
    // Provider, URL, user, transport, bind, name, language, sentence, extension, folder.
    let lines = "pipeline\n\n\n\n\n\ndeutsch\nde\n\n\nmade\n";
    let ran = offhook(home.path(), &["init", "--offline"], &[], lines).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("\"deutsch\" is not a tag of a language"), "{}", ran.out);
    let yaml = read(home.path(), "made/offhook.yaml");
    for written in [
        "    language: \"de\"\n",
        "\n      Speak German.\n",
        "greeting: \"Guten Tag. Wie kann ich Ihnen",
        "10300}\", language: \"de\" }",
        "10200}\", language: \"de\" }",
    ] {
        assert!(yaml.contains(written), "{written}\n{yaml}");
    }
    // What it would listen with knows English alone.
    let ran = offhook(home.path(), &["init", "--yes", "--offline", "--language", "de"], &[], "").await;
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("an attendant hears English alone; choose another --provider"), "{}", ran.err);
}

#[tokio::test]
async fn each_provider_hears_and_speaks_the_language_that_was_asked_for() {
    let home = folder();
    let keys = ["OPENAI_API_KEY", "DEEPGRAM_API_KEY", "ELEVENLABS_API_KEY", "ARI_PASSWORD"];
    let env: Vec<(&str, String)> = keys.map(|name| (name, "some-secret".to_owned())).into();
    for (provider, language, written) in [
        ("openai_realtime", "fr-CA", "\n      transcription: { language: fr }\n"),
        ("deepgram_agent", "fr-CA", "\n      listen: { version: v1, language: fr }\n"),
        ("deepgram_agent", "fr-CA", "\n      speak: { type: deepgram, model: aura-2-agathe-fr }\n"),
        ("deepgram_agent", "pt-BR", "\n      # The vendor has no voice for it: "),
        ("deepgram_agent", "nb", "\n      listen: { version: v1, language: \"no\" }\n"),
        ("deepgram_agent", "en-GB", "\n      # listen: { version: v1, language: de }\n"),
        ("elevenlabs_agent", "fr-CA", "\n      # language: fr\n"),
    ] {
        let line = format!(
            "init --yes --offline --force --provider {provider} --agent-id a --language {language} --output made"
        );
        let ran = offhook(home.path(), &line.split(' ').collect::<Vec<_>>(), &[], "").await;
        assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
        let yaml = read(home.path(), "made/offhook.yaml");
        assert!(yaml.contains(written), "{line}: {written}\n{yaml}");
        let ran = offhook(home.path(), &["check", "made/offhook.yaml"], &env, "").await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{line}: {}", ran.out);
    }
}

/// Nobody has to answer everything again because a package is missing.
#[tokio::test]
async fn where_only_a_program_is_missing_the_files_are_written_and_it_is_named() {
    let (home, empty) = (folder(), folder());
    let path = [("PATH", empty.path().display().to_string())];
    let ran = offhook(home.path(), &["init", "--yes", "--offline", "--output", "made"], &path, "").await;
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    let named = ran.out.contains("pocketsphinx_continuous is not installed; apt install pocketsphinx");
    assert!(named && ran.out.contains("The files are written all the same"), "{}", ran.out);
    assert!(read(home.path(), "made/offhook.yaml").contains("attendant"));
}

#[tokio::test]
async fn answers_that_make_no_configuration_write_nothing() {
    let home = folder();
    for (more, says) in [
        (&["--rtp-ports", "500-600"][..], "media.rtp.ports: \"500-600\": ports below 1024"),
        (&["--provider", "openai_realtime", "--base-url", "localhost"], "base_url"),
        (&["--context", "a,b"], "up to 40 letters"),
        (&["--extension", "7000,1"], "up to 20 digits"),
        (&["--ari-url", "pbx"], "Address of ARI: is not an http:// or https:// address"),
    ] {
        let all = [&["init", "--yes", "--offline", "--output", "made"], more].concat();
        let ran = offhook(home.path(), &all, &[], "").await;
        assert_eq!(ran.code, 2, "{more:?}: {}", ran.out);
        assert!(ran.err.contains(says), "{more:?}: {}", ran.err);
        assert!(!home.path().join("made").exists(), "{more:?}");
    }
    let ran = offhook(home.path(), &["init", "--yes", "--output", "made"], &[], "").await;
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "offhook init: ARI_PASSWORD is not set: export it, or write --offline to test nothing\n")
    );
}
