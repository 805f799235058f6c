//! `config/neural.yaml` on a real line, against stand-ins for Whisper and Piper: a caller who knows no list of phrases is answered,
//! and one whose words say nothing is asked again. Its services themselves are tried in `tests/neural.rs`, without their models.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, speech},
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        project,
        stages::{Asked, Server, voice, writes},
    },
    ms,
    pipeline::wait_for_a_pause,
};
use offhook::sentences::{Language, Sentence};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const AGENT_HZ: f64 = 660.0;
/// What the caller says, and how the first clause of the answer begins.
const TALK: [(&str, &str); 5] = [
    ("Er, hello?", "Sorry, I did not understand."),
    ("Could you please tell me you're opening hours?", "Of course."),
    ("And I wondered, is anybody there on Sundays?", "No, on Sundays we are closed."),
    ("Thanks a lot, that helps.", "Can I do anything else for you?"),
    ("No, that was all. Bye-bye!", "Thank you for calling."),
];

/// The committed file with these changes, with ports of the test's, and without the server of the weather, which is a program.
fn shipped(place: &Place, changed: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(project().join("config/neural.yaml")).expect("a committed file");
    let own = [
        ("127.0.0.1:9092", format!("127.0.0.1:{}", place.audiosocket)),
        ("127.0.0.1:15000", format!("127.0.0.1:{}", place.http)),
        ("  enabled: true", "  enabled: false".to_owned()),
    ];
    let changed = changed.iter().map(|(theirs, ours)| (*theirs, (*ours).to_owned()));
    own.into_iter().chain(changed).fold(text, |text, (theirs, ours)| {
        assert_eq!(text.matches(theirs).count(), 1, "{theirs} in config/neural.yaml");
        text.replace(theirs, &ours)
    })
}

/// A call to the shipped configuration with these changes, whose caller has heard the greeting begin.
async fn called(whisper: &Server, piper: &Server, changed: &[(&str, &str)]) -> (Asterisk, Offhook, Phone) {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let yaml = shipped(&place, changed);
    let mut env = asterisk.environment();
    env.extend([("WHISPER", whisper.address.to_string()), ("PIPER", piper.address.to_string())]);
    let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    let phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(120_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    (asterisk, offhook, phone)
}

async fn a_caller_with_free_words_is_answered_or_asked_again() {
    let turn = Arc::new(AtomicUsize::new(0));
    let whisper = {
        let turn = Arc::clone(&turn);
        Server::start(move |asked| writes(asked, TALK[turn.load(Ordering::Relaxed)].0)).await
    };
    let piper = Server::start(|asked| voice::speaks(asked, AGENT_HZ, ms(400))).await;
    let (asterisk, offhook, mut phone) = called(&whisper, &piper, &[]).await;
    for (nth, (says, begins)) in TALK.iter().enumerate() {
        turn.store(nth, Ordering::Relaxed);
        wait_for_a_pause(&phone).await;
        let before = piper.times();
        phone.say(speech(ms(1_500))).await;
        // Clauses of one answer are asked for at the same moment, and come in any order.
        piper
            .until(&format!("{says:?} is answered with {begins:?}"), |asked| {
                asked.iter().skip(before).any(|clause| clause.text().starts_with(begins))
            })
            .await;
    }
    assert_eq!(offhook.wait_end_reason(SOON).await, "agent_hung_up");
    asterisk.wait_empty(SOON).await;
    offhook.metric_is("offhook_tool_calls_total{outcome=\"done\",tool=\"hangup_call\"}", 1.0).await;
    for private in ["Sundays", "opening", "closed"] {
        assert!(!offhook.log().contains(private), "{private:?} reached the log");
    }
}

/// A caller whom nobody takes, and who then says nothing more, hears no English: neither of the transfer nor of the end.
async fn what_offhook_says_itself_is_in_the_context_s_language() {
    let whisper = Server::start(|asked| writes(asked, "I would like to talk to a person, please.")).await;
    let piper = Server::start(|asked| voice::speaks(asked, AGENT_HZ, ms(400))).await;
    let changed = [
        ("    provider: attendant\n", "    provider: attendant\n    language: de\n"),
        ("Local/reception@offhook-transfer", "Local/declines@lab-targets"),
    ];
    let (asterisk, offhook, mut phone) = called(&whisper, &piper, &changed).await;
    wait_for_a_pause(&phone).await;
    phone.say(speech(ms(1_500))).await;
    for begins in ["Ich konnte Sie nicht verbinden", "Sind Sie noch da?", "Ich kann Sie nicht hören"] {
        let said = |asked: &[Asked]| asked.iter().any(|clause| clause.text().starts_with(begins));
        piper.until(&format!("{begins:?} is said"), said).await;
    }
    assert_eq!(offhook.wait_end_reason(SOON).await, "no_input");
    asterisk.wait_empty(SOON).await;
    let said: Vec<String> = piper.asked().iter().map(|clause| clause.text().to_owned()).collect();
    for sentence in Sentence::ALL {
        let english = sentence.text(Language::English);
        assert!(!said.iter().any(|clause| english.starts_with(clause.as_str())), "{english}: {said:?}");
    }
}

crate::scenes! {
    both:
        a_caller_with_free_words_is_answered_or_asked_again,
        what_offhook_says_itself_is_in_the_context_s_language;
}
