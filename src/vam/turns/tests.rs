//! What clients are told, in which order.

use super::*;

const LOUD: [u8; 320] = [0x11; 320];
const SILENT: [u8; 320] = [0; 320];

struct Told {
    turns: Turns,
    now: Instant,
    out: Vec<Payload>,
}

impl Told {
    fn new() -> Self {
        let now = tokio::time::Instant::now().into_std();
        let turns = Turns::new("s".into(), Format::SLIN8, (AudioCodec::Pcm8k16, None), now);
        Self { turns, now, out: Vec::new() }
    }

    fn cue(&mut self, cue: Cue) -> &mut Self {
        self.turns.cue(cue, self.now, &mut self.out);
        self
    }

    fn frames(&mut self, frame: [u8; 320], count: usize) -> &mut Self {
        for _ in 0..count {
            self.now += Duration::from_millis(FRAME_MS);
            self.cue(Cue::Frame(Bytes::copy_from_slice(&frame)));
        }
        self
    }

    fn voiced(&mut self, is_voiced: bool) -> &mut Self {
        self.turns.voiced(is_voiced, self.now, &mut self.out);
        self
    }

    fn chunks(&self) -> usize {
        self.out.iter().filter(|payload| matches!(payload, Payload::SynthesisChunk(_))).count()
    }

    /// Signals by name, runs of chunks as `chunks`, a final one as `final`, words as `words`, errors in brackets.
    fn story(&mut self) -> String {
        let mut words: Vec<String> = Vec::new();
        for payload in self.out.drain(..) {
            let word = match payload {
                Payload::TurnSignal(signal) => signal.event().as_str_name().replace("TURN_EVENT_", ""),
                Payload::SynthesisChunk(chunk) if chunk.is_final => "final".into(),
                Payload::SynthesisChunk(_) => "chunks".into(),
                Payload::TranscriptEvent(_) => "words".into(),
                Payload::StreamError(error) => {
                    assert!(!error.message.is_empty());
                    let fatal = if error.is_fatal { " fatal" } else { "" };
                    format!("({} {}{fatal})", error.code().as_str_name().replace("STREAM_ERROR_CODE_", ""), error.stage)
                }
                Payload::ActionRequestPayload(_) => "action".into(),
            };
            if words.last() != Some(&word) || word != "chunks" {
                words.push(word);
            }
        }
        words.join(" ")
    }
}

/// V29: each transition, and the chunks between them.
#[test]
fn a_conversation_is_told_in_the_order_of_the_specification() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(SILENT, 5);
    assert_eq!(told.story(), "IDLE LISTENING");
    told.cue(Cue::CallerSpeaks).cue(Cue::CallerFinished).frames(SILENT, 10);
    assert_eq!(told.story(), "THINKING");
    told.frames(LOUD, 5).frames(SILENT, 2).frames(LOUD, 3).cue(Cue::Quiet).cue(Cue::SaidOut).frames(SILENT, 40);
    assert_eq!(told.story(), "SPEAKING chunks final END_OF_TURN LISTENING");
}

#[test]
fn a_greeting_goes_through_thinking() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3).cue(Cue::Quiet).cue(Cue::SaidOut).frames(SILENT, 1);
    assert_eq!(told.story(), "IDLE LISTENING THINKING SPEAKING chunks final END_OF_TURN LISTENING");
}

/// V29: a service that is slow, or an agent that is paused, ends no turn, however long it is silent; the call says when it is over.
#[test]
fn silence_alone_ends_no_turn() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3).frames(SILENT, 500).frames(LOUD, 3).frames(SILENT, 500);
    assert_eq!(told.story(), "IDLE LISTENING THINKING SPEAKING chunks");
    told.cue(Cue::Quiet);
    assert_eq!(told.story(), "final END_OF_TURN LISTENING");
}

/// V29: nothing is owed any more and nothing was said: who was told THINKING is told that the turn is over, and the next one is
/// another.
#[test]
fn a_turn_that_is_answered_with_nothing_ends() {
    let mut told = Told::new();
    told.cue(Cue::Up).cue(Cue::CallerSpeaks).cue(Cue::CallerFinished).frames(SILENT, 5);
    let turn = told.turns.turn_id.clone();
    told.cue(Cue::Quiet).cue(Cue::Quiet).frames(SILENT, 5);
    assert_eq!(told.story(), "IDLE LISTENING THINKING END_OF_TURN LISTENING");
    assert_ne!(told.turns.turn_id, turn);
    let action = Cue::Action { envelope: Box::default(), since: told.now };
    told.cue(action).cue(Cue::Quiet);
    assert_eq!(told.story(), "THINKING action END_OF_TURN LISTENING", "an action that nobody speaks of");
    let failed = Cue::Stumbled(Stumble { part: Part::Listener, is_slow: false });
    told.cue(Cue::CallerFinished).cue(failed).cue(Cue::Quiet);
    assert_eq!(told.story(), "THINKING (ASR_BACKEND_ERROR asr) ERROR", "it has not ended well");
    told.cue(Cue::CallerSpeaks).cue(Cue::CallerFinished);
    assert_eq!(told.story(), "LISTENING THINKING", "the user is listened to again");
}

/// A tool that is no action, after words that announce it: the turn goes on, and what follows is a request of its own.
#[test]
fn words_before_a_tool_end_no_turn() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3).cue(Cue::SaidOut).frames(SILENT, 500);
    assert_eq!(told.story(), "IDLE LISTENING THINKING SPEAKING chunks final");
    told.frames(LOUD, 3).cue(Cue::Quiet);
    assert_eq!(told.story(), "chunks final END_OF_TURN LISTENING");
}

/// Nothing is cut off then, but the turn is the caller's.
#[test]
fn a_caller_who_speaks_into_the_wait_for_a_tool_is_listened_to() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3).cue(Cue::SaidOut).frames(SILENT, 10);
    told.story();
    told.cue(Cue::CallerSpeaks).frames(SILENT, 10).cue(Cue::CallerFinished).frames(LOUD, 1);
    assert_eq!(told.story(), "INTERRUPTED LISTENING THINKING SPEAKING chunks");
}

/// V32: and the next words of the agent are a turn again.
#[test]
fn a_backend_that_fails_is_an_error_of_the_turn() {
    let mut told = Told::new();
    told.cue(Cue::Up).cue(Cue::CallerSpeaks).cue(Cue::CallerFinished).cue(Cue::Failing).frames(LOUD, 2);
    assert_eq!(
        told.story(),
        "IDLE LISTENING THINKING (LLM_BACKEND_ERROR llm fatal) ERROR LISTENING THINKING SPEAKING chunks"
    );
}

/// V32: each part by its own code and stage; what the call survives is not fatal, and a listener's failure is the turn's ERROR
/// unless the agent speaks.
#[test]
fn a_service_that_stumbles_is_told_by_its_stage() {
    let stumbled = |part, is_slow| Cue::Stumbled(Stumble { part, is_slow });
    let mut told = Told::new();
    told.cue(stumbled(Part::Listener, true)).cue(Cue::Up);
    assert_eq!(told.story(), "(ASR_BACKEND_TIMEOUT asr) IDLE LISTENING");
    told.cue(stumbled(Part::Listener, false)).cue(Cue::CallerFinished);
    assert_eq!(told.story(), "(ASR_BACKEND_ERROR asr) ERROR LISTENING THINKING");
    told.cue(stumbled(Part::Model, true)).cue(stumbled(Part::Model, false)).cue(stumbled(Part::Voice, true));
    assert_eq!(told.story(), "(LLM_BACKEND_TIMEOUT llm) (LLM_BACKEND_ERROR llm) (TTS_BACKEND_TIMEOUT tts)");
    told.frames(LOUD, 1).cue(stumbled(Part::Listener, true)).cue(stumbled(Part::Voice, false)).frames(LOUD, 1);
    assert_eq!(told.story(), "SPEAKING chunks (ASR_BACKEND_TIMEOUT asr) (TTS_BACKEND_ERROR tts) chunks");
}

/// V32: an agent that is lost is told as the part of it that failed, if one did in this turn, and else as a model.
#[test]
fn what_is_fatal_is_told_by_the_stage_that_failed() {
    let mut told = Told::new();
    told.cue(Cue::Up).cue(Cue::CallerFinished).cue(Cue::Lost { is_slow: true }).cue(Cue::Lost { is_slow: false });
    assert_eq!(told.story(), "IDLE LISTENING THINKING (LLM_BACKEND_TIMEOUT llm) (LLM_BACKEND_ERROR llm)");
    let stumbled = Cue::Stumbled(Stumble { part: Part::Voice, is_slow: true });
    told.cue(stumbled.clone()).cue(Cue::Lost { is_slow: false });
    assert_eq!(told.story(), "(TTS_BACKEND_TIMEOUT tts)", "once");
    told.cue(Cue::Failing);
    assert_eq!(told.story(), "(TTS_BACKEND_TIMEOUT tts fatal) ERROR");
    let mut told = Told::new();
    told.cue(Cue::Up).cue(Cue::CallerFinished).cue(stumbled).frames(LOUD, 1).cue(Cue::Quiet).cue(Cue::CallerFinished);
    told.story();
    told.cue(Cue::Failing);
    assert_eq!(told.story(), "(LLM_BACKEND_ERROR llm fatal) ERROR", "that was another turn");
}

#[test]
fn an_interruption_ends_the_chunks_at_once() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3);
    told.story();
    told.cue(Cue::CallerSpeaks).cue(Cue::BargeIn).frames(SILENT, 3);
    assert_eq!(told.story(), "INTERRUPTED LISTENING");
    told.cue(Cue::CallerFinished).frames(LOUD, 1);
    assert_eq!(told.story(), "THINKING SPEAKING chunks");
}

/// A chunk that the client marks as voiced interrupts without waiting for our ears; when they find none, the agent goes on.
#[test]
fn the_clients_word_interrupts_at_once_and_can_be_taken_back() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3);
    told.story();
    told.voiced(true).frames(LOUD, 10);
    assert_eq!(told.story(), "INTERRUPTED LISTENING", "what is still said is not sent yet");
    told.cue(Cue::FalseAlarm).frames(LOUD, 2);
    assert_eq!(told.chunks(), 12, "nothing of it is lost");
    assert_eq!(told.story(), "THINKING SPEAKING chunks");
}

/// Whoever owns the turns says nothing: what was said in that second comes late, and whole, with its end; and a client that goes on
/// saying so is not believed until it has taken it back.
#[test]
fn a_hint_that_nobody_confirms_costs_no_word() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3);
    told.story();
    told.voiced(true).frames(LOUD, 20).cue(Cue::Quiet).frames(SILENT, 29);
    assert_eq!(told.story(), "INTERRUPTED LISTENING");
    told.frames(SILENT, 1);
    assert_eq!(told.chunks(), 21, "twenty of the words, and the final one");
    assert_eq!(told.story(), "THINKING SPEAKING chunks final END_OF_TURN LISTENING");
    told.frames(LOUD, 1).voiced(true).frames(LOUD, 1);
    assert_eq!(told.story(), "THINKING SPEAKING chunks");
    told.voiced(false).voiced(true);
    assert_eq!(told.story(), "INTERRUPTED LISTENING");
}

/// Where the call finds that it is an interruption, the client hears no more of what was said; but for what may not be cut off.
#[test]
fn a_hint_that_is_right_silences_the_agent_and_not_what_is_protected() {
    let interrupted = || {
        let mut told = Told::new();
        told.cue(Cue::Up).frames(LOUD, 3).voiced(true).frames(LOUD, 5).cue(Cue::CallerSpeaks);
        told.story();
        told
    };
    let mut told = interrupted();
    told.cue(Cue::BargeIn).frames(SILENT, 60).cue(Cue::CallerFinished).frames(LOUD, 2);
    assert_eq!(told.chunks(), 2);
    assert_eq!(told.story(), "THINKING SPEAKING chunks");
    let mut ended = interrupted();
    ended.frames(SILENT, 60);
    assert_eq!(ended.story(), "", "its last word was talked over");
    let mut protected = interrupted();
    protected.frames(LOUD, 2);
    assert_eq!(protected.chunks(), 7);
    assert_eq!(protected.story(), "THINKING SPEAKING chunks");
}

/// The end of a call is no reason to keep what was said.
#[test]
fn a_call_that_ends_while_a_hint_is_undecided_is_told_to_its_end() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 3).voiced(true).frames(LOUD, 5);
    told.story();
    let (now, mut out) = (told.now, Vec::new());
    told.turns.end(now, &mut out);
    told.out.append(&mut out);
    assert_eq!(told.chunks(), 6);
    assert_eq!(told.story(), "THINKING SPEAKING chunks final END_OF_TURN");
}

/// V answer 15: what is said while an action runs is a request of its own, and no turn ends with it.
#[test]
fn what_is_said_while_an_action_runs_ends_no_turn() {
    let mut told = Told::new();
    let action = Cue::Action { envelope: Box::default(), since: told.now };
    told.cue(Cue::Up).cue(action).frames(LOUD, 3).cue(Cue::SaidOut).frames(SILENT, 40);
    let request = |told: &Told, first: bool| {
        let mut chunks = told.out.iter().filter_map(|payload| match payload {
            Payload::SynthesisChunk(chunk) => Some(chunk.request_id.clone()),
            _ => None,
        });
        if first { chunks.next() } else { chunks.last() }
    };
    let filler = request(&told, true);
    assert_eq!(told.story(), "IDLE LISTENING THINKING action SPEAKING chunks final");
    told.frames(LOUD, 3).cue(Cue::Quiet).frames(SILENT, 2);
    assert_ne!(request(&told, false), filler);
    assert_eq!(told.story(), "chunks final END_OF_TURN LISTENING");
}

/// V30: signals of one turn.
#[test]
fn all_of_one_turn_share_an_id_and_the_next_one_has_another() {
    let mut told = Told::new();
    told.cue(Cue::Up).frames(LOUD, 2).cue(Cue::Quiet).frames(SILENT, 1);
    let ids = told.out.iter().filter_map(|payload| match payload {
        Payload::TurnSignal(signal) => Some(signal.turn_id.clone()),
        _ => None,
    });
    let ids: Vec<String> = ids.collect();
    let (last, first) = ids.split_last().unwrap();
    assert!(first.iter().all(|id| *id == first[0]) && *last != first[0], "{ids:?}");
}
