//! Voices, notices, fillers, and what is heard when no agent is left.

use super::{mistakes::told, *};
use crate::{
    call::{Exit, LastResort, Recovery},
    sentences::{Language, Sentence},
};

const PBX: &str = "\
asterisk: { password: word }
destinations:
  sales: { description: People who sell., context: from-internal, extension: \"200\" }
voicemail:
  mailboxes:
    office: { description: The office., mailbox: 100@default }
voices:
  ada: { espeak_ng: { voice: en-us } }
providers:
  front: { scripted: }
contexts:
  desk:
    prompt: Be kind.
    provider: front
";

fn desk(lines: &str) -> Arc<Context> {
    loaded(&format!("{PBX}{lines}")).contexts["desk"].clone()
}

fn about(lines: &str) -> String {
    problems(&format!("{PBX}{lines}"))
}

fn line(text: &str) -> Option<Line> {
    Some(Line { text: text.into(), file: None })
}

#[test]
fn everything_that_can_be_said_is_read() {
    let desk = desk(
        "    voice: ada\n    greeting: Hello.\n    notice: This call is recorded.\n    \
         fillers: { moment: Just a second., patience: Still here. }\n    \
         limits: { answer: 3s, quiet: 900ms, recovery: { attempts: 2, within: 9s } }\n    on_failure:\n      \
         say: We have a problem.\n      menu:\n        say: Press one for sales, two to leave a message.\n        \
         keys: { \"1\": { transfer: sales }, \"2\": { voicemail: office }, \"0\": dialplan, \"#\": hang_up }\n        \
         rounds: 3\n        wait: 4s\n",
    );
    let speech = &desk.speech;
    assert_eq!((speech.voice.as_deref(), speech.greeting_by), (Some("ada"), Greeter::Clip));
    assert_eq!(speech.notice, line("This call is recorded."));
    assert_eq!((&speech.moment, &speech.patience), (&line("Just a second."), &line("Still here.")));
    assert_eq!(speech.apology, line("We have a problem."));
    assert_eq!(speech.menu, line("Press one for sales, two to leave a message."));
    let keys = [
        ('1', Exit::Transfer("sales".into())),
        ('2', Exit::Voicemail("office".into())),
        ('0', Exit::Dialplan),
        ('#', Exit::HangUp),
    ];
    let wait = Duration::from_secs(4);
    assert_eq!(desk.rules.last_resort, Some(LastResort { keys: keys.into(), rounds: 3, wait }));
    assert_eq!((desk.rules.answer_max, desk.rules.quiet_max), (Duration::from_secs(3), Duration::from_millis(900)));
    assert_eq!(desk.rules.recovery, Recovery { attempts: 2, within: Duration::from_secs(9) });
}

/// A caller is best greeted at once, but in a voice that somebody has chosen.
#[test]
fn a_clip_greets_where_a_voice_is_named_or_where_it_is_asked_for() {
    for (lines, greeter) in [
        ("    greeting: Hello.\n", Greeter::Agent),
        ("    greeting: Hello.\n    voice: ada\n", Greeter::Clip),
        ("    greeting: Hello.\n    voice: ada\n    greeting_by: agent\n", Greeter::Agent),
        ("    greeting: Hello.\n    greeting_by: clip\n", Greeter::Clip),
    ] {
        assert_eq!(desk(lines).speech.greeting_by, greeter, "{lines}");
    }
}

#[test]
fn a_recording_takes_the_place_of_a_voice() {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("said.wav");
    fs::write(&sound, include_bytes!("../../core/audio/apology.wav")).unwrap();
    let file = folder.path().join("offhook.yaml");
    let yaml = format!(
        "{PBX}    notice: {{ file: said.wav, text: This call is recorded. }}\n    on_failure: {{ apology: said.wav }}\n"
    );
    fs::write(&file, yaml).unwrap();
    let config = load(&file, &env, &catalog()).unwrap_or_else(|problems| panic!("{problems}"));
    let speech = &config.contexts["desk"].speech;
    assert_eq!(speech.notice, Some(Line { text: "This call is recorded.".into(), file: Some(sound.clone()) }));
    assert_eq!(
        speech.apology,
        Some(Line { text: Sentence::Apology.text(Language::English).into(), file: Some(sound) })
    );
}

#[test]
fn mistakes_are_told_with_what_would_be_right() {
    let menu = |keys: &str| format!("    on_failure: {{ menu: {{ say: Press a key., keys: {keys} }} }}\n");
    let cases = [
        "    voice: adda\n".to_owned(),
        "    greeting_by: model\n".into(),
        "    notice: ''\n".into(),
        "    notice: 5\n".into(),
        "    notice: Hello {caller_name}, this call is recorded.\n".into(),
        "    notice: { file: nowhere.wav, text: This call is recorded. }\n".into(),
        "    notice: { file: nowhere.wav }\n".into(),
        "    fillers: { moments: Wait. }\n".into(),
        "    limits: { recovery: { attempts: 21 } }\n".into(),
        "    on_failure: { menu: { say: Press a key. } }\n".into(),
        menu("{ 1: { transfer: sales } }"),
        menu("{ \"1\": { transfer: sale } }"),
        menu("{ \"1\": { voicemail: offices } }"),
        menu("{ \"10\": hang_up }"),
        menu("{ \"1\": { queue: sales } }"),
        menu("{ \"1\": hangup }"),
    ];
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    insta::assert_snapshot!(told(&cases, about));
}

#[test]
fn a_voices_own_mistakes_are_told_in_their_place() {
    let told = problems(&PBX.replace("voice: en-us", "voice: zzzz"));
    assert_eq!(told, "test.yaml:8: voices.ada.espeak_ng.voice: is no voice");
    let told = problems(&PBX.replace("{ espeak_ng: { voice: en-us } }", "{ espeak: {} }"));
    assert!(told.contains("voices.ada.espeak: unknown kind of voice; "), "{told}");
}

/// A tag is text however it is written: `no` is Norwegian, not false.
#[test]
fn a_context_speaks_its_language() {
    for (tag, language) in [("de", Language::German), ("pt-BR", Language::Portuguese), ("no", Language::Norwegian)] {
        let config = loaded(&format!(
            "{PBX}    language: {tag}\n    no_input: {{ goodbye: Bye. }}\n    sentences: {{ after_hold: Hi. }}\n"
        ));
        let context = &config.contexts["desk"];
        let said = |sentence| context.rules.sentences.get(sentence).to_owned();
        assert_eq!(said(Sentence::AreYouThere), Sentence::AreYouThere.text(language), "{tag}");
        assert_eq!([said(Sentence::NotHeard), said(Sentence::AfterHold)], ["Bye.", "Hi."], "{tag}");
        assert_eq!(context.policy.rules.confirm.before, Sentence::ShallI.text(language), "{tag}");
        assert_eq!((context.rules.sentences.language(), config.warnings.len()), (language, 0), "{tag}");
    }
    assert_eq!(desk("").rules.sentences.tag, None);
    for (text, wrong) in [(" ", "must not be empty"), ("Hello {caller_name}.", "{caller_name} is not filled here; ")] {
        let told = about(&format!("    sentences: {{ after_hold: \"{text}\" }}\n"));
        assert!(told.contains(&format!("contexts.desk.sentences.after_hold: {wrong}")), "{told}");
    }
    let told = about("    language: deutsch\n");
    assert_eq!(
        told,
        "test.yaml:15: contexts.desk.language: \"deutsch\" is not a tag of a language; write the tag of BCP 47, such as de or pt-BR"
    );
}

#[test]
fn sentences_that_a_language_lacks_are_told() {
    let some = "    language: pl\n    fillers: { moment: Chwileczkę. }\n    no_input: { say: Halo? }\n";
    let warnings =
        |context: &str| loaded(&format!("{PBX}{context}")).warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let told = warnings(some);
    assert_eq!(told.len(), 1, "{told:?}");
    let missing = "on_failure.say, fillers.patience, no_input.goodbye, sentences.call_too_long, sentences.after_hold, \
                   sentences.not_answered, sentences.transfer_no_answer, sentences.transfer_busy, \
                   sentences.transfer_refused, sentences.transfer_unreachable, sentences.shall_i, sentences.connecting, sentences.goodbye, \
                   sentences.done, sentences.pin_right, sentences.pin_wrong, sentences.digits_taken, \
                   sentences.extension_free, sentences.extension_busy, sentences.extension_unreachable, sentences.enter_pin, sentences.end_with_hash, sentences.end_with_star";
    assert!(told[0].contains(&format!("callers hear these in English: {missing}; ")), "{}", told[0]);
    let all = "    language: pl\n    fillers: { moment: A., patience: A. }\n    no_input: { say: A., goodbye: A. }\n    \
               on_failure: { say: A. }\n    sentences: { call_too_long: A., after_hold: A., not_answered: A., \
               transfer_no_answer: A., transfer_busy: A., transfer_refused: A., transfer_unreachable: A., shall_i: A., connecting: A., \
               goodbye: A., done: A., pin_right: A., pin_wrong: A., digits_taken: A., extension_free: A., extension_busy: A., extension_unreachable: A., enter_pin: A., end_with_hash: A., end_with_star: A. }\n";
    assert_eq!(warnings(all), [""; 0]);
}

/// A pipeline of these services, in a context with these lines.
fn warned([stt, llm, voices]: [&str; 3], lines: &str) -> Vec<String> {
    let text = format!(
        "stt:\n  ears: {{ {stt} }}\nllm:\n  mind: {{ {llm} }}\nvoices:\n  ada: {{ {voices} }}\nproviders:\n  \
         front: {{ pipeline: {{ stt: ears, llm: mind, tts: ada }} }}\ncontexts:\n  desk:\n    prompt: Be kind.\n    \
         provider: front\n{lines}"
    );
    let config = load_str("test.yaml", &text, &env, shipped::shipped());
    config.unwrap_or_else(|problems| panic!("{problems}")).warnings.iter().map(ToString::to_string).collect()
}

const EARS: &str = "wyoming_transcribe: { address: \"h:1\" }";
const MIND: &str = "openai_chat: { model: m, api_key: k }";

#[test]
fn a_voice_of_another_language_is_told_where_its_options_name_one() {
    let wyoming = |voice: &str| format!("wyoming_speech: {{ address: \"h:1\", {voice} }}");
    let openai = |voice: &str| format!("openai_speech: {{ model: m, voice: {voice} }}");
    for (voice, language) in [
        ("espeak_ng: {}".to_owned(), Some("en")),
        ("espeak_ng: { voice: fr-be+f3 }".into(), Some("fr-be+f3")),
        ("espeak_ng: { voice: mb-de4-en }".into(), None),
        ("espeak_ng: { voice: yue }".into(), None),
        (wyoming("voice: nl_NL-mls-medium"), Some("nl-NL")),
        (wyoming("voice: thorsten, language: pl"), Some("pl")),
        (wyoming("voice: af_heart"), None),
        (openai("it-IT-Elsa"), Some("it-IT")),
        (openai("ada"), None),
        (openai("de_AT-kerstin"), None),
        ("deepgram_speech: { api_key: k }".into(), Some("en")),
        ("deepgram_speech: { api_key: k, model: aura-2-viktoria-de }".into(), None),
        ("deepgram_speech: { api_key: k, model: house-voice-en }".into(), None),
        ("elevenlabs_speech: { api_key: k, voice: v, language: es }".into(), Some("es")),
        ("elevenlabs_speech: { api_key: k, voice: v }".into(), None),
    ] {
        let wrong = language.map(|other| {
            format!("voices.ada is for {other}, and what offhook says here is in de; name one for de, or write language: {other} in this context")
        });
        for (key, lines) in [("provider", "    language: de\n"), ("voice", "    voice: ada\n    language: de\n")] {
            let line = if key == "provider" { 12 } else { 13 };
            let told = wrong.as_ref().map(|wrong| format!("test.yaml:{line}: contexts.desk.{key}: {wrong}"));
            assert_eq!(warned([EARS, MIND, &voice], lines), Vec::from_iter(told), "{voice}");
        }
    }
    let norwegian = "espeak_ng: { voice: nb }";
    assert_eq!(warned([EARS, MIND, norwegian], "    language: nn\n"), [""; 0]);
    let told = warned([EARS, MIND, norwegian], "");
    assert!(told[0].contains("what offhook says here is in en; "), "without a language it is in English: {told:?}");
}

#[test]
fn a_listener_of_another_language_is_told_too() {
    for (ears, language) in [
        ("deepgram_listen: { api_key: k }", Some("en")),
        ("deepgram_listen: { api_key: k, model: flux-general-en }", Some("en")),
        ("deepgram_listen: { api_key: k, model: flux-general-multi }", None),
        ("deepgram_listen: { api_key: k, language: multi }", None),
        ("deepgram_listen: { api_key: k, language: de-CH }", None),
        ("pocketsphinx: { phrases: [opening hours] }", Some("en")),
        ("wyoming_transcribe: { address: \"h:1\", language: fr }", Some("fr")),
    ] {
        let told = warned([ears, MIND, "espeak_ng: { voice: de }"], "    language: de\n");
        let other = |other| format!("stt.ears is for {other}, and what offhook says here is in de; ");
        assert!(matches!((&told[..], language.map(other)), ([], None) | ([_], Some(_))), "{ears}: {told:?}");
        assert!(told.iter().all(|told| told.contains(&language.map(other).unwrap_or_default())), "{told:?}");
    }
}

#[test]
fn the_three_sentences_of_an_attendant_are_told_where_its_language_lacks_them() {
    let mind = |keys: &str| format!("attendant: {{ entries: [{{ key: \"1\", say: A. }}], {keys} }}");
    let told = |keys: &str, lines: &str| {
        let lines = format!("    language: pl\n{lines}");
        warned([EARS, &mind(keys), "espeak_ng: { voice: pl }"], &lines).concat()
    };
    let none = told("", "");
    let keys = "llm.mind.attendant.failed, llm.mind.attendant.greeting, llm.mind.attendant.otherwise; write these keys";
    assert!(none.contains(keys), "{none}");
    let greeted = told("failed: A.", "    greeting: Dzień dobry.\n");
    assert!(greeted.contains("sentences.end_with_star, llm.mind.attendant.otherwise; write these keys"), "{greeted}");
    assert!(!told("greeting: A., otherwise: A., failed: A.", "").contains("llm.mind"));
    assert_eq!(warned([EARS, &mind(""), "espeak_ng: { voice: de }"], "    language: de\n"), [""; 0]);
}

#[test]
fn a_menu_needs_asterisk() {
    let told = problems_with("    on_failure: { menu: { say: Press one., keys: { \"1\": hang_up } } }\n");
    assert_eq!(told, "test.yaml:7: contexts.desk.on_failure.menu: a menu needs ARI; add the section asterisk");
}

/// Who copies an example of the document has one that works.
#[test]
fn the_examples_in_the_document_are_whole() {
    let text = fs::read_to_string(crate::project("docs/speech.md")).unwrap();
    let examples: Vec<_> = text.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let config = load_str("docs/speech.md", example, &env, shipped::shipped());
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
}
