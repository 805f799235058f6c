//! What a loaded configuration has ready, with the real espeak-ng.

use super::*;
use crate::{
    config,
    engine::{generation::Generation, workshop::Workshop},
    provider,
    tool::Announce,
};
use std::collections::BTreeSet;

fn config(context: &str) -> Config {
    assert!(speech::is_installed(), "the tests need espeak-ng: apt install espeak-ng");
    let yaml = format!(
        "asterisk: {{ password: word }}\n\
         voices:\n  ada: {{ espeak_ng: {{ voice: en-us }} }}\n  nobody: {{ espeak_ng: {{ voice: zzzz }} }}\n\
         providers: {{ a: {{ scripted: {{ script: [silence] }} }} }}\n\
         contexts:\n  desk:\n    prompt: Test\n    provider: a\n{context}"
    );
    config::load_str("test.yaml", &yaml, &|_| None, provider::catalog()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn built(context: &str) -> Repertoire {
    let mut found = prepare(&config(context), &BTreeMap::new(), &Studio::default());
    found.as_mut().map_or_else(|errors| panic!("{errors:?}"), |found| found.remove("desk").unwrap())
}

fn errors(context: &str) -> Vec<BuildError> {
    prepare(&config(context), &BTreeMap::new(), &Studio::default()).map(|found| found.len()).unwrap_err()
}

fn seconds(spoken: &Spoken) -> f32 {
    spoken.clip.length().as_secs_f32()
}

const NAMED: &str =
    "    voice: ada\n    greeting: Good morning, this is the desk.\n    notice: This call is recorded.\n";

#[test]
fn a_context_that_names_a_voice_has_everything_in_it_when_it_is_loaded() {
    let clips = built(&format!(
        "{NAMED}    fillers: {{ moment: Let me see. }}\n    on_failure:\n      say: Our assistant has gone.\n      \
         menu: {{ say: Press one to hang up., keys: {{ \"1\": hang_up }} }}\n"
    ))
    .clips;
    let texts = [&clips.notice, &clips.greeting, &clips.menu].map(|spoken| spoken.as_ref().unwrap().text.as_str());
    assert_eq!(texts, ["This call is recorded.", "Good morning, this is the desk.", "Press one to hang up."]);
    let texts = [&clips.moment, &clips.patience, &clips.apology].map(|spoken| spoken.text.as_str());
    assert_eq!(texts, ["Let me see.", Sentence::Patience.text(Language::English), "Our assistant has gone."]);
    let spoken =
        [&clips.moment, &clips.patience, &clips.apology].into_iter().chain(&clips.notice).chain(&clips.greeting);
    for spoken in spoken {
        assert!((0.4..8.0).contains(&seconds(spoken)), "{}: {} s", spoken.text, seconds(spoken));
    }
    assert_ne!(seconds(&clips.patience), seconds(&Clips::default().patience), "one voice says everything");
}

#[test]
fn a_context_that_says_nothing_of_it_has_the_built_in_sentences_and_an_agent_that_greets() {
    let clips = built("    greeting: Good morning.\n").clips;
    assert!(clips.greeting.is_none() && clips.notice.is_none() && clips.menu.is_none());
    assert_eq!(seconds(&clips.moment), seconds(&Clips::default().moment));
    let clips = built("    greeting: Good morning.\n    greeting_by: clip\n").clips;
    assert_eq!(clips.greeting.as_ref().unwrap().text, "Good morning.", "espeak-ng needs no entry of its own");
}

#[test]
fn what_is_said_in_a_context_of_another_language_is_in_that_language_whoever_speaks_it() {
    for voice in ["", "    voice: ada\n"] {
        let clips = built(&format!("    language: de\n{voice}")).clips;
        let texts = [&clips.moment, &clips.patience, &clips.apology].map(|spoken| spoken.text.as_str());
        let german = |sentence: Sentence| sentence.text(Language::German);
        assert_eq!(texts, [Sentence::Moment, Sentence::Patience, Sentence::Apology].map(german));
    }
    // A voice of another language takes another time for the words.
    let said =
        |language: &str| built(&format!("    language: {language}\n    notice: Achtundachtzig Gespräche.\n")).clips;
    assert_ne!(seconds(said("de").notice.as_ref().unwrap()), seconds(said("en").notice.as_ref().unwrap()));
}

/// Sentences in a language that offhook has none of are spoken in it all the same, and those of regions as people there speak.
#[test]
fn what_is_written_is_spoken_in_the_language_that_is_named() {
    let said = |tag: &str| {
        let clips =
            built(&format!("    language: {tag}\n    notice: Dziewięćdziesiąt dziewięć, oitenta e oito.\n")).clips;
        seconds(clips.notice.as_ref().unwrap())
    };
    assert_ne!(said("pl"), said("en"));
    assert_ne!(said("pt-BR"), said("pt"));
}

/// espeak-ng has a voice under each of the tags.
#[test]
fn every_language_has_a_voice() {
    for language in Language::ALL {
        let clips = built(&format!("    language: {}\n", language.code())).clips;
        assert_eq!(clips.moment.text, Sentence::Moment.text(language));
        assert!((0.3..4.0).contains(&seconds(&clips.moment)), "{language:?}: {} s", seconds(&clips.moment));
    }
}

#[test]
fn music_for_those_who_wait_is_loaded_once_for_all_contexts() {
    let mut config = config("  door: { prompt: Test, provider: a }\n");
    let prepared = |config: &Config| prepare(config, &BTreeMap::new(), &Studio::default());
    assert!(prepared(&config).unwrap()["desk"].clips.ring_music.is_none());
    config.media.ring_music = Some(crate::project("src/core/audio/moment.wav"));
    let found = prepared(&config).unwrap();
    let [desk, door] = ["desk", "door"].map(|name| found[name].clips.ring_music.clone().expect("it is there"));
    assert!(Arc::ptr_eq(&desk, &door));
    config.media.ring_music = Some("nowhere.wav".into());
    let errors = prepared(&config).map(|found| found.len()).unwrap_err();
    assert_eq!(errors[0].place, "media.ring_music", "{errors:?}");
}

#[test]
fn what_tools_say_in_fixed_words_is_ready_as_well() {
    let config = config("    voice: ada\n");
    let tool = |text: &str, confirm: Option<&str>| ToolSpec {
        announce: Some(Announce { after: Duration::from_secs(1), text: text.into() }),
        confirm_template: confirm.map(Into::into),
        ..ToolSpec::new("look_up", "Looks.", json!({}))
    };
    let specs: Arc<[ToolSpec]> =
        [tool("I am looking.", Some("Shall I?")), tool("I am looking.", Some("Shall I book {day}?"))].into();
    let found = prepare(&config, &[("desk", specs)].into(), &Studio::default());
    let clips = &found.unwrap_or_else(|errors| panic!("{errors:?}"))["desk"].clips;
    let lines: BTreeSet<&str> = clips.lines.keys().map(String::as_str).collect();
    assert_eq!(lines, ["I am looking.", "Shall I?"].into(), "and nothing with a gap in it");
    assert!(seconds(&clips.line("I am looking.").unwrap()) > 0.4);
}

#[test]
fn a_voice_that_cannot_speak_is_told_with_its_place_and_a_remedy() {
    let errors = errors("    voice: nobody\n    notice: This call is recorded.\n");
    let told = errors[0].to_string();
    assert!(errors.len() == 1 && told.starts_with("contexts.desk."), "{told}");
    assert!(told.contains("voices.nobody cannot speak it: espeak-ng failed"), "{told}");
    assert!(told.ends_with("see `espeak-ng --voices` for the voices there are"), "{told}");
}

/// A sentence of our own that is spoken since the context has a voice stands nowhere in the file.
#[test]
fn what_a_voice_cannot_speak_and_nobody_has_written_is_told_where_the_voice_is_named() {
    let errors = errors("    voice: nobody\n");
    let told = errors[0].to_string();
    assert!(errors.len() == 1 && told.starts_with("contexts.desk.voice: voices.nobody cannot speak"), "{told}");
}

/// Default sentences are recordings; texts of an operator are not.
#[test]
fn without_espeak_only_texts_that_nobody_can_speak_are_refused() {
    let missing = |context: &str| {
        let config = config(context);
        let parts = config.contexts.values().map(|context| (context.name.as_str(), Parts::of(context))).collect();
        super::missing(&config, &parts, &BTreeMap::new()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(missing("    greeting: Good morning.\n").is_empty());
    let remedy = "the program espeak-ng is not installed; apt install espeak-ng, or name another voice";
    assert_eq!(missing("    notice: This call is recorded.\n"), [format!("contexts.desk.notice: {remedy}")]);
}

#[test]
fn a_generation_with_other_tools_does_not_render_again() {
    let generation = Generation::build(1, config(NAMED), &Workshop::closed());
    let generation = generation.unwrap_or_else(|errors| panic!("{errors:?}"));
    let workshop = Workshop::closed();
    let built = Generation::build(2, config(NAMED), &workshop).unwrap_or_else(|errors| panic!("{errors:?}"));
    let renewed = built.renewed(&workshop).unwrap_or_else(|errors| panic!("{errors:?}"));
    let notice =
        |generation: &Generation| Arc::clone(&generation.repertoire("desk").clips.notice.as_ref().unwrap().clip);
    assert!(Arc::ptr_eq(&notice(&built), &notice(&renewed)));
    assert!(!Arc::ptr_eq(&notice(&generation), &notice(&renewed)), "that one has a studio of its own");
}

/// Does something for which the time does not pass, however long another program takes for it.
async fn in_no_time<T>(work: impl Future<Output = T>) -> T {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    // A paused clock stands still while something blocks.
    let holds = tokio::task::spawn_blocking(move || is_done.recv());
    let result = work.await;
    drop(done);
    assert!(holds.await.expect("it only waits").is_err());
    result
}

#[tokio::test(start_paused = true)]
async fn a_greeting_with_a_name_in_it_is_spoken_when_its_call_begins() {
    let desk = built("    voice: ada\n    greeting: Good morning, {caller_name}.\n");
    assert!(desk.clips.greeting.is_none(), "nobody is called so yet");
    let studio = Studio::default();
    let clips = in_no_time(desk.for_call(Greeter::Clip, Some("Good morning, Ada."), &studio)).await;
    let greeting = clips.greeting.as_ref().expect("espeak-ng speaks");
    assert_eq!(greeting.text, "Good morning, Ada.");
    assert!(seconds(greeting) > 0.5);
    assert!(desk.for_call(Greeter::Agent, Some("Good morning, Ada."), &studio).await.greeting.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dialplan_with_a_greeting_of_its_own_is_not_answered_with_the_prepared_one() {
    let desk = built(NAMED);
    let prepared = "Good morning, this is the desk.";
    assert!(Arc::ptr_eq(&desk.at_hand(Some(prepared)), &desk.clips));
    assert!(desk.at_hand(Some("Merry Christmas!")).greeting.is_none());
    let studio = Studio::default();
    let clips = in_no_time(desk.for_call(Greeter::Clip, Some("Merry Christmas!"), &studio)).await;
    assert_eq!(clips.greeting.as_ref().unwrap().text, "Merry Christmas!");
    assert_eq!(clips.notice.as_ref().unwrap().text, "This call is recorded.");
}

#[tokio::test]
async fn a_call_does_not_wait_for_a_slow_voice_and_its_agent_greets() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // It takes the connection, and nothing more.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", silent.local_addr().unwrap());
    let options = json!({ "base_url": base_url, "model": "m", "voice": "v" });
    let desk = Repertoire { clips: Arc::default(), speaker: speech::build("openai_speech", &options).ok() };
    let began = tokio::time::Instant::now();
    let clips = desk.for_call(Greeter::Clip, Some("Good morning, Ada."), &Studio::default()).await;
    assert!(clips.greeting.is_none());
    assert!((250..600).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

fn spoken(text: &str) -> Option<Spoken> {
    let clip = Clip::from_samples(8_000, vec![0; 8_000]).unwrap();
    Some(Spoken { text: text.into(), clip: Arc::new(clip) })
}

#[test]
fn an_agent_is_told_what_the_caller_has_heard_and_does_not_greet_again() {
    let clips =
        Clips { notice: spoken("This call is recorded."), greeting: spoken("Good morning!"), ..Clips::default() };
    let told = told(&clips).unwrap();
    assert!(told.contains("\"This call is recorded. Good morning!\""), "{told}");
    assert!(told.contains("do not greet again"), "{told}");
}

#[test]
fn after_a_notice_alone_the_agent_still_greets() {
    let clips = Clips { notice: spoken("This call is recorded."), ..Clips::default() };
    let words = told(&clips).unwrap();
    assert!(words.contains("\"This call is recorded.\" Do not repeat"), "{words}");
    assert!(!words.contains("greet again"), "{words}");
    assert_eq!(told(&Clips::default()), None);
}
