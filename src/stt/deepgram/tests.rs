//! What comes of Deepgram's messages, without sockets first, then against an emulated server.

use super::{flux::Flux, nova::Nova};
use crate::{
    audio::Format,
    remote::{Fault, Wire},
    stt::{
        Hear, Heard,
        session::Codec as _,
        stage::{Bench, Call, Peer, TURN_MAX, Vendor, short},
    },
};
use serde_json::{Value, json};
use std::time::Duration;

fn results(from: f64, to: f64, text: &str, flags: Value) -> Value {
    let mut message = json!({
        "type": "Results", "start": from, "duration": to - from, "is_final": false, "speech_final": false,
        "channel": { "alternatives": [{ "transcript": text, "confidence": 0.9, "words": [] }] }, "metadata": {},
    });
    flags.as_object().expect("flags").iter().for_each(|(name, flag)| message[name] = flag.clone());
    message
}

fn interim(from: f64, to: f64, text: &str) -> Value {
    results(from, to, text, json!({}))
}

fn is_final(from: f64, to: f64, text: &str) -> Value {
    results(from, to, text, json!({ "is_final": true }))
}

fn finalized(from: f64, to: f64, text: &str) -> Value {
    results(from, to, text, json!({ "is_final": true, "speech_final": true, "from_finalize": true }))
}

mod nova {
    use super::*;

    fn bench() -> Bench<Nova> {
        Bench::new(Nova::new(Format::ULAW, TURN_MAX))
    }

    #[test]
    fn a_turn_is_all_final_texts_and_not_the_last_alone() {
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).reads(interim(0.0, 2.0, "I'd"));
        bench.silence(2_000).reads(is_final(0.0, 4.0, "I'd like")).reads(interim(4.0, 5.0, "a"));
        assert_eq!(bench.told(), ["… I'd", "… I'd like", "… I'd like a"]);
        bench.silence(1_000).hears(Hear::TurnEnded);
        assert_eq!(bench.sent(), ["Finalize", "Finalize"]);
        assert!(bench.told().is_empty(), "its last words are under way");
        bench.reads(finalized(4.0, 5.0, "a taxi."));
        assert_eq!(bench.told(), ["turn: I'd like a taxi."]);
    }

    #[test]
    fn a_turn_that_may_end_is_finalized_once_and_answered_at_once() {
        let mut bench = bench();
        bench.silence(1_000).hears(Hear::TurnBegan).silence(1_000).reads(interim(0.0, 2.0, "Yes"));
        bench.hears(Hear::TurnMayEnd).reads(finalized(0.0, 2.0, "Yes."));
        assert_eq!(bench.told(), ["… Yes", "= Yes."]);
        bench.silence(200).reads(interim(2.0, 2.2, "")).hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["turn: Yes."]);
        assert_eq!(bench.sent(), ["Finalize"]);
    }

    #[test]
    fn a_caller_who_goes_on_is_finalized_again() {
        let mut bench = bench();
        bench.silence(1_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnMayEnd);
        bench.hears(Hear::TurnGoesOn).reads(finalized(0.0, 2.0, "Yes")).silence(1_000).hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["… Yes"], "not stable: there is more");
        bench.reads(finalized(2.0, 3.0, "please."));
        assert_eq!(bench.told(), ["turn: Yes please."]);
        assert_eq!(bench.sent(), ["Finalize", "Finalize", "Finalize"]);
    }

    #[test]
    fn words_after_the_finalization_take_its_stability_back() {
        let mut bench = bench();
        bench.silence(1_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnMayEnd);
        bench.reads(finalized(0.0, 2.0, "Yes")).silence(400).reads(interim(2.0, 2.4, "but"));
        assert_eq!(bench.told(), ["= Yes", "… Yes but"]);
        bench.hears(Hear::TurnEnded).reads(finalized(2.0, 2.4, "but no."));
        assert_eq!(bench.told(), ["turn: Yes but no."]);
    }

    #[test]
    fn words_before_a_turn_belong_to_it_within_the_lead_only() {
        let mut bench = bench();
        bench.silence(1_000).reads(is_final(0.0, 1.0, "Cough")).silence(3_000).reads(is_final(1.0, 4.0, "Hello"));
        bench.hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(finalized(4.0, 4.0, ""));
        assert_eq!(bench.told(), ["… Hello", "turn: Hello"]);
    }

    /// A result may reach back into what was said before; its words say when.
    #[test]
    fn a_result_that_began_before_the_turn_gives_the_words_of_the_turn() {
        let mut bench = bench();
        bench.silence(4_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnEnded);
        let mut message = finalized(0.0, 5.0, "Mhm. A taxi.");
        message["channel"]["alternatives"][0]["words"] = json!([
            { "word": "mhm", "punctuated_word": "Mhm.", "start": 0.5, "end": 0.9 },
            { "word": "a", "punctuated_word": "A", "start": 3.9, "end": 4.1 },
            { "word": "taxi", "punctuated_word": "taxi.", "start": 4.2, "end": 4.6 },
        ]);
        bench.reads(message);
        assert_eq!(bench.told(), ["turn: A taxi."]);
    }

    #[test]
    fn a_turn_that_was_none_is_told_by_nothing_and_its_words_are_not_told_later() {
        let mut bench = bench();
        bench.silence(1_000).hears(Hear::TurnBegan).silence(500).hears(Hear::TurnDropped);
        bench.reads(is_final(0.0, 1.5, "Mhm")).silence(3_000).hears(Hear::TurnBegan).silence(1_000);
        bench.hears(Hear::TurnEnded).reads(finalized(1.5, 5.5, "No."));
        assert_eq!(bench.told(), ["turn: No."]);
    }

    #[test]
    fn two_turns_that_wait_are_answered_in_order_each_with_its_own_words() {
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnEnded);
        bench.hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnEnded);
        bench.reads(finalized(0.0, 3.0, "One.")).reads(is_final(3.8, 4.5, "Two")).reads(finalized(4.5, 4.8, "three."));
        assert_eq!(bench.told(), ["turn: One.", "turn: Two three."]);
    }

    /// Each word goes to the turn in which it was said, and to that alone.
    #[test]
    fn a_result_that_reaches_over_two_turns_is_divided_by_its_words() {
        let message = || {
            let mut message = is_final(1.0, 5.0, "One. Two.");
            message["channel"]["alternatives"][0]["words"] = json!([
                { "word": "one", "punctuated_word": "One.", "start": 1.1, "end": 1.5 },
                { "word": "two", "punctuated_word": "Two.", "start": 4.1, "end": 4.5 },
            ]);
            message
        };
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnEnded).hears(Hear::TurnBegan);
        bench.silence(1_200).reads(message());
        assert_eq!(bench.told(), ["… Two.", "turn: One."]);
        bench.hears(Hear::TurnEnded).reads(finalized(5.0, 5.8, ""));
        assert_eq!(bench.told(), ["turn: Two."]);
        let mut bench = self::bench();
        bench.silence(2_000).hears(Hear::TurnBegan).silence(1_000).hears(Hear::TurnEnded);
        bench.silence(1_200).reads(message()).hears(Hear::TurnBegan);
        assert_eq!(bench.told(), ["turn: One.", "… Two."], "it had not begun yet");
    }

    /// All is final, and no audio follows: the silence that was sent is answered.
    #[test]
    fn a_finalization_without_anything_left_is_answered_by_the_next_result() {
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).reads(is_final(0.0, 2.0, "Yes.")).hears(Hear::TurnEnded);
        let silent: usize = bench.talk.wires.iter().skip(100).map(|wire| wire.bytes().len()).sum();
        assert!(silent > 6_000, "the server hears that the caller is silent");
        bench.reads(interim(2.0, 2.8, ""));
        assert_eq!(bench.told(), ["… Yes.", "turn: Yes."]);
    }

    #[test]
    fn times_that_no_call_has_are_none() {
        let mut bench = bench();
        let message = json!({
            "type": "Results", "start": 1.8e19, "duration": 1.8e19, "is_final": true,
            "channel": { "alternatives": [{ "transcript": "Yes", "words": [] }] },
        });
        bench.silence(2_000).reads(message.clone()).hears(Hear::TurnBegan).reads(message);
        assert_eq!(bench.told(), ["… Yes", "… Yes Yes"]);
    }

    #[test]
    fn a_turn_without_words_is_empty_and_a_server_that_lives_is_not_a_fault() {
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(interim(0.0, 1.5, ""));
        let (waited, ended) = bench.waits();
        assert!(waited < TURN_MAX && ended.is_ok(), "{waited:?}");
        assert_eq!(bench.told(), ["turn: "]);
        bench.hears(Hear::TurnEnded).reads(finalized(2.0, 2.0, ""));
        assert_eq!(bench.told(), ["turn: "], "one for each, also where none has begun");
    }

    #[test]
    fn a_server_that_is_silent_is_slow_but_known_words_of_one_that_lives_are_told() {
        let mut bench = bench();
        bench.silence(2_000).hears(Hear::TurnBegan).reads(interim(0.0, 2.0, "Yes")).hears(Hear::TurnEnded);
        let (waited, ended) = bench.waits();
        assert_eq!((waited, ended), (TURN_MAX, Err(Fault::Slow(TURN_MAX))));
        let mut bench = self::bench();
        bench.silence(2_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(interim(0.0, 1.9, "Yes"));
        assert!(bench.waits().1.is_ok());
        assert_eq!(bench.told(), ["turn: Yes"]);
    }

    #[test]
    fn the_vendors_own_belief_is_told_and_taken_back() {
        let mut bench = bench();
        let over = json!({ "is_final": true, "speech_final": true });
        bench.silence(2_000).hears(Hear::TurnBegan).reads(results(0.0, 2.0, "Well", over));
        bench.silence(1_000).reads(interim(2.0, 3.0, "I"));
        assert_eq!(bench.told(), ["… Well", "over: true", "over: false", "… Well I"]);
        let end = json!({ "type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 2.9 });
        bench.reads(end.clone()).reads(end);
        assert_eq!(bench.told(), ["over: true"]);
    }

    #[test]
    fn what_was_heard_is_told_as_used_now_and_then_and_after_each_turn() {
        let mut bench = bench();
        bench.silence(3_000).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
        assert_eq!(bench.talk.words.drain(..).map(|heard| short(&heard)).collect::<Vec<_>>(), ["used: 3 s"]);
        let mut bench = self::bench();
        bench.silence(25_000);
        bench.codec.close(&mut bench.talk);
        let used: Vec<String> = bench.talk.words.drain(..).map(|heard| short(&heard)).collect();
        assert_eq!(used, ["used: 10 s", "used: 10 s", "used: 5 s"]);
        assert_eq!(bench.sent(), ["CloseStream"]);
    }
}

mod flux {
    use super::*;

    fn bench() -> Bench<Flux> {
        Bench::new(Flux::new(Format::ULAW, TURN_MAX))
    }

    fn info(index: u64, event: &str, to: f64, text: &str) -> Value {
        json!({
            "type": "TurnInfo", "event": event, "turn_index": index, "transcript": text, "words": [],
            "end_of_turn_confidence": 0.5, "sequence_id": 1, "audio_window_start": 0.0, "audio_window_end": to,
        })
    }

    #[test]
    fn the_servers_beliefs_are_told() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "StartOfTurn", 1.0, "A"));
        bench.reads(info(0, "Update", 1.1, "A taxi")).reads(info(0, "Update", 1.2, "A taxi"));
        bench.reads(info(0, "EagerEndOfTurn", 1.3, "A taxi")).reads(info(0, "TurnResumed", 1.4, "A taxi"));
        bench.reads(info(0, "Update", 1.5, "A taxi please")).reads(info(0, "EndOfTurn", 1.6, "A taxi, please."));
        let partials = ["… A", "… A taxi", "= A taxi", "over: false", "… A taxi", "… A taxi please"];
        assert_eq!(bench.told(), [&partials[..], &["= A taxi, please.", "over: true"]].concat());
        bench.hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["turn: A taxi, please."], "nothing has to be asked for");
        assert!(bench.sent().is_empty());
    }

    #[test]
    fn a_turn_that_the_server_has_not_ended_is_ended() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "StartOfTurn", 1.0, "A taxi")).hears(Hear::TurnEnded);
        assert_eq!(bench.sent(), ["ForceEndTurn"]);
        bench.reads(info(0, "EndOfTurn", 1.0, "A taxi."));
        assert_eq!(bench.told(), ["… A taxi", "turn: A taxi."]);
    }

    #[test]
    fn an_end_without_words_forgets_none() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "Update", 1.0, "A taxi"));
        bench.reads(info(0, "EndOfTurn", 1.04, "")).hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["… A taxi", "= A taxi", "over: true", "turn: A taxi"]);
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(1, "Update", 2.0, "To town")).hears(Hear::TurnEnded);
        bench.reads(info(1, "EndOfTurn", 2.08, " "));
        assert_eq!(bench.told(), ["… To town", "turn: To town"]);
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(2, "EndOfTurn", 3.1, "")).hears(Hear::TurnEnded);
        bench.reads(info(3, "EndOfTurn", 3.12, ""));
        assert_eq!(bench.told(), ["turn: "], "nothing of the turn before");
    }

    #[test]
    fn several_turns_of_the_server_are_one_and_none_is_told_twice() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "EndOfTurn", 1.0, "Well."));
        bench.reads(info(1, "StartOfTurn", 1.1, "I")).hears(Hear::TurnEnded);
        bench.reads(info(1, "EndOfTurn", 1.1, "I need a taxi.")).reads(info(1, "Update", 1.2, "I need a taxi."));
        let story = ["= Well.", "over: true", "over: false", "… Well. I", "turn: Well. I need a taxi."];
        assert_eq!(bench.told(), story);
        bench.silence(2_000).hears(Hear::TurnBegan).reads(info(2, "StartOfTurn", 3.0, "Now")).hears(Hear::TurnEnded);
        bench.reads(info(2, "EndOfTurn", 3.0, "Now."));
        assert_eq!(bench.told(), ["… Now", "turn: Now."]);
    }

    #[test]
    fn words_of_a_server_that_does_not_end_its_turn_are_told_once() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "StartOfTurn", 1.0, "A taxi")).hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["… A taxi"]);
        bench.reads(info(0, "Update", 1.8, "A taxi"));
        assert_eq!(bench.told(), ["turn: A taxi"], "it has passed the end: it has heard silence since");
        bench.hears(Hear::TurnBegan).reads(info(0, "Update", 2.0, "A taxi to town")).hears(Hear::TurnEnded);
        bench.reads(info(0, "EndOfTurn", 2.0, "A taxi to town."));
        assert_eq!(bench.told(), ["… to town", "turn: to town."]);
    }

    #[test]
    fn the_words_of_a_turn_that_was_none_are_nobodys() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "Update", 1.0, "Yeah"));
        assert_eq!(bench.told(), ["… Yeah"]);
        bench.hears(Hear::TurnDropped);
        assert_eq!(bench.sent(), ["ForceEndTurn"], "or the server's turn would go on in the next one");
        bench.hears(Hear::TurnBegan);
        assert!(bench.told().is_empty(), "no word of it is left");
        // Under way meanwhile.
        bench.reads(info(0, "Update", 1.04, "Yeah yeah")).reads(info(0, "EndOfTurn", 1.84, "Yeah, yeah."));
        assert!(bench.told().is_empty());
        bench.silence(1_040).reads(info(1, "Update", 2.8, "No")).hears(Hear::TurnEnded);
        bench.reads(info(1, "EndOfTurn", 2.88, "No, don't."));
        assert_eq!(bench.told(), ["… No", "turn: No, don't."]);
    }

    #[test]
    fn the_end_of_a_turn_that_was_none_does_not_answer_the_next_one() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).hears(Hear::TurnDropped).hears(Hear::TurnBegan);
        bench.silence(1_040).hears(Hear::TurnEnded).reads(info(0, "EndOfTurn", 1.84, "Yeah."));
        assert!(bench.told().is_empty());
        bench.reads(info(1, "EndOfTurn", 2.88, "No."));
        assert_eq!(bench.told(), ["turn: No."]);
    }

    #[test]
    fn words_outside_a_turn_belong_to_it_within_the_lead_only() {
        let mut bench = bench();
        bench.silence(1_040).reads(info(0, "EndOfTurn", 1.0, "Cough.")).silence(3_040);
        bench.reads(info(1, "EndOfTurn", 3.5, "Hello.")).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
        assert_eq!(bench.told(), ["… Hello.", "turn: Hello."]);
        bench.hears(Hear::TurnBegan).hears(Hear::TurnDropped).silence(2_000).hears(Hear::TurnBegan);
        assert!(bench.told().is_empty());
    }

    #[test]
    fn a_turn_without_words_waits_no_longer_than_a_server_that_lives_needs() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).hears(Hear::TurnEnded).reads(info(0, "Update", 1.04, ""));
        let (waited, ended) = bench.waits();
        assert!(waited < TURN_MAX && ended.is_ok(), "{waited:?}");
        assert_eq!(bench.told(), ["turn: "]);
        bench.hears(Hear::TurnEnded);
        assert_eq!(bench.waits(), (TURN_MAX, Err(Fault::Slow(TURN_MAX))), "it says nothing any more");
    }

    /// A turn in which the server has heard nothing is none to it, and `ForceEndTurn` is passed over.
    #[test]
    fn a_turn_without_words_is_answered_when_the_server_has_heard_the_silence_after_it() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).hears(Hear::TurnEnded);
        let binary = |wire: &Wire| matches!(wire, Wire::Binary(_)).then(|| wire.bytes().len());
        let sent: usize = bench.talk.wires.iter().filter_map(binary).sum();
        bench.reads(info(0, "Update", sent as f64 / 8_000.0, ""));
        assert_eq!(bench.told(), ["turn: "], "it has heard all that was sent");
    }

    #[test]
    fn words_that_come_after_the_end_of_their_turn_are_waited_for() {
        let mut bench = bench();
        bench.silence(1_040).hears(Hear::TurnBegan).reads(info(0, "EndOfTurn", 0.2, "")).hears(Hear::TurnEnded);
        bench.reads(info(1, "StartOfTurn", 0.9, "A")).reads(info(1, "EndOfTurn", 1.04, "A taxi."));
        assert_eq!(bench.told(), ["turn: A taxi."]);
    }

    #[test]
    fn audio_leaves_in_messages_of_80_ms_and_all_of_it_before_the_end_of_a_turn() {
        let mut bench = bench();
        bench.silence(100);
        let sizes: Vec<usize> = bench.talk.wires.drain(..).map(|wire| wire.bytes().len()).collect();
        assert_eq!(sizes, [640]);
        bench.hears(Hear::TurnEnded);
        let sizes: Vec<usize> = bench.talk.wires.drain(..).map(|wire| wire.bytes().len()).collect();
        assert_eq!(sizes[..2], [160, 23]);
        assert_eq!(sizes[2..], [640; 10], "then silence");
    }
}

/// Against a server on a socket.
mod emulated {
    use super::*;

    async fn call(options: Value) -> (Call, Vendor) {
        let vendor = Vendor::open().await;
        let mut all = json!({ "api_key": "dg-secret", "base_url": format!("ws://{}", vendor.address) });
        options.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        (Call::begin("deepgram_listen", &all, Format::ULAW), vendor)
    }

    async fn nova() -> (Call, Peer) {
        let (mut call, vendor) = call(json!({})).await;
        let peer = vendor.socket().await;
        assert_eq!(call.is_told().await, Heard::Ready);
        (call, peer)
    }

    #[tokio::test]
    async fn nova_is_asked_for_what_is_configured_and_a_call_is_heard() {
        let options = json!({
            "language": "de", "keyterms": ["Grün & Söhne", "Taxi"], "numerals": true, "redact": ["pci"],
            "mip_opt_out": true, "endpointing_ms": 300,
        });
        let (mut call, vendor) = call(options).await;
        // Said while the connection is made.
        call.sound(Format::ULAW, 50, 0xff);
        call.hears(Hear::TurnBegan);
        let mut peer = vendor.socket().await;
        let query = "model=nova-3&encoding=mulaw&sample_rate=8000&channels=1&interim_results=true&punctuate=true\
            &endpointing=300&language=de&numerals=true&mip_opt_out=true&keyterm=Gr%C3%BCn+%26+S%C3%B6hne&keyterm=Taxi\
            &redact=pci";
        assert_eq!((&*peer.path, &*peer.key), (&*format!("/v1/listen?{query}"), "Token dg-secret"));
        call.hears(Hear::TurnEnded);
        assert_eq!(peer.hears().await["type"], "Finalize");
        assert_eq!(peer.bytes, 8_000, "nothing was lost");
        peer.says(json!({ "type": "SpeechStarted" })).await;
        peer.says(finalized(0.0, 1.0, "Ein Taxi.")).await;
        assert_eq!(call.story().await, ["ready", "used: 1 s", "turn: Ein Taxi."]);
        assert_eq!(peer.hears().await["type"], "Finalize");
        let goodbye = tokio::spawn(call.hangs_up());
        assert_eq!(peer.hears().await["type"], "CloseStream");
        peer.drops();
        assert_eq!(goodbye.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn flux_is_chosen_by_its_model_and_heard_once_it_is_connected() {
        let options = json!({ "model": "flux-general-multi", "language_hints": ["de"], "eot_threshold": 0.8 });
        let (mut call, vendor) = call(options).await;
        let mut peer = vendor.socket().await;
        let query = "model=flux-general-multi&encoding=mulaw&sample_rate=8000&eot_threshold=0.8&language_hint=de";
        assert_eq!(peer.path, format!("/v2/listen?{query}"));
        call.sound(Format::ULAW, 4, 0xff);
        call.hears(Hear::TurnBegan);
        call.hears(Hear::TurnEnded);
        peer.says(json!({ "type": "Connected", "request_id": "r", "sequence_id": 0 })).await;
        assert_eq!(peer.hears().await["type"], "ForceEndTurn");
        assert_eq!(peer.bytes, 640);
        let info = json!({ "type": "TurnInfo", "event": "EndOfTurn", "turn_index": 0, "transcript": "Hallo." });
        peer.says(info).await;
        assert_eq!(call.story().await, ["ready", "used: 0 s", "turn: Hallo."]);
        peer.says(json!({ "type": "Error", "code": "INTERNAL_SERVER_ERROR", "description": "Hallo" })).await;
        let code = Some("internal_server_error".to_owned());
        assert_eq!(call.fault().await, Fault::Reported { like: Some(500), code });
    }

    #[tokio::test]
    async fn a_vendor_that_refuses_says_when_to_come_again() {
        for (answer, status, retry_after) in
            [("401 Unauthorized\r\n", 401, None), ("429 Too Many Requests\r\nRetry-After: 7\r\n", 429, Some(7))]
        {
            let (call, vendor) = call(json!({})).await;
            vendor.refuses(&format!("HTTP/1.1 {answer}Content-Length: 0\r\n\r\n")).await;
            let retry_after = retry_after.map(Duration::from_secs);
            assert_eq!(call.fault().await, Fault::Refused { status, code: None, retry_after });
        }
    }

    #[tokio::test]
    async fn a_session_that_breaks_off_is_a_fault_with_the_vendors_code_and_without_its_words() {
        let (call, peer) = nova().await;
        call.hears(Hear::TurnBegan);
        peer.closes(1011).await;
        assert_eq!(call.fault().await.to_string(), "the service closed the connection with 1011");
        let (call, peer) = nova().await;
        peer.drops();
        assert_eq!(call.fault().await, Fault::Closed(None));
    }

    #[tokio::test]
    async fn messages_that_cannot_be_read_are_counted_and_end_the_session_only_where_nothing_else_comes() {
        let (mut call, mut peer) = nova().await;
        let noise = ["<html>", r#"{"type":"Results"}"#, "{"];
        for message in noise.into_iter().cycle().take(19) {
            peer.says_raw(message).await;
        }
        peer.says(json!({ "type": "SpeechStarted" })).await;
        for _ in 0..19 {
            assert_eq!(short(&call.is_told().await), "odd: malformed");
        }
        for _ in 0..20 {
            peer.says_raw("<html>").await;
        }
        assert!(matches!(call.fault().await, Fault::Garbage(_)));
    }

    /// Its connection stands, and nobody is behind it.
    #[tokio::test]
    async fn a_vendor_that_answers_no_ping_is_gone_though_nobody_speaks() {
        let (call, mut peer) = nova().await;
        tokio::time::pause();
        let since = tokio::time::Instant::now();
        // Reading is what answers a ping.
        while since.elapsed() < Duration::from_secs(60) {
            peer.hears().await;
        }
        let since = tokio::time::Instant::now();
        assert_eq!(call.fault().await, Fault::Closed(None));
        assert!(since.elapsed() < Duration::from_secs(11), "{:?}", since.elapsed());
        tokio::time::resume();
        drop(peer);
    }

    #[tokio::test]
    async fn a_line_on_which_nothing_is_sent_is_kept_by_a_word() {
        let (call, mut peer) = nova().await;
        tokio::time::pause();
        assert_eq!(peer.hears().await["type"], "KeepAlive");
        assert_eq!(peer.hears().await["type"], "KeepAlive");
        drop(call);
    }

    #[tokio::test]
    async fn a_line_for_which_the_vendor_has_no_word_is_kept_by_pings() {
        let (mut call, vendor) = self::call(json!({ "model": "flux-general-en" })).await;
        let mut peer = vendor.socket().await;
        peer.says(json!({ "type": "Connected" })).await;
        assert_eq!(call.is_told().await, Heard::Ready);
        tokio::time::pause();
        assert!(peer.is_pinged().await);
        assert!(peer.is_pinged().await);
        drop(call);
    }

    #[tokio::test]
    async fn a_vendor_that_stalls_is_slow() {
        let (mut call, mut peer) = nova().await;
        call.hears(Hear::TurnBegan);
        call.hears(Hear::TurnEnded);
        assert_eq!(peer.hears().await["type"], "Finalize");
        tokio::time::pause();
        assert_eq!(call.fault().await, Fault::Slow(TURN_MAX));
        tokio::time::resume();
        let vendor;
        (call, vendor) = self::call(json!({ "model": "flux-general-en" })).await;
        let _peer = vendor.socket().await;
        tokio::time::pause();
        assert!(matches!(call.fault().await, Fault::Slow(_)), "it is never connected");
    }
}
