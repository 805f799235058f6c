//! Calls that have ended, of all kinds: what the history shows in tests and on pictures.

use jiff::{SignedDuration, Timestamp};
use offhook::{
    call::EndReason,
    facts::{CallId, Direction},
    records::{
        Archive as _, Cost, Counts, Ending, Entry, Event, Record, Recorded, Sqlite, Turn, TurnUsed, Used,
        recording_file,
    },
};
use serde_json::{Value, json};
use std::path::Path;

/// Newer ones are closer together: most of them in the last three days, as the plots show.
pub fn keep(folder: &Path, calls: u32) {
    std::fs::create_dir_all(folder).expect("a folder of the test's own");
    let mut archive = Sqlite::open(&folder.join("calls.sqlite3")).expect("a new archive");
    let now = Timestamp::now();
    let records: Vec<Record> = (1..=calls).rev().map(|number| record(number, now - age(number, calls))).collect();
    archive.put(&records).expect("a new archive takes records");
    records.iter().filter(|record| record.recording.is_some()).for_each(|record| keep_sound(folder, record));
}

/// A hum for each side, as long as it speaks: the caller on the left.
fn keep_sound(folder: &Path, record: &Record) {
    const RATE: u32 = 8_000;
    let data = (record.seconds * f64::from(RATE)) as u32 * 4;
    let mut wav = Vec::from(*b"RIFF");
    wav.extend((data + 36).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x02\0");
    wav.extend(RATE.to_le_bytes().into_iter().chain((RATE * 4).to_le_bytes()).chain(*b"\x04\0\x10\0data"));
    wav.extend(data.to_le_bytes());
    let (mut speak, mut events) = ([false; 2], record.entries.iter().peekable());
    for sample in 0..data / 4 {
        let at = f64::from(sample) / f64::from(RATE);
        while let Some(entry) = events.next_if(|entry| entry.at_ms as f64 <= at * 1_000.0) {
            match entry.event {
                Event::CallerSpeaks => speak[0] = true,
                Event::CallerFinished => speak[0] = false,
                Event::AgentSpeaks => speak[1] = true,
                Event::AgentFinished | Event::BargeIn { .. } => speak[1] = false,
                _ => {}
            }
        }
        for (side, hertz) in [(0, 180.0), (1, 140.0)] {
            // Some four syllables a second, none like the other.
            let syllable = (at * 13.0).sin().abs() * (0.6 + 0.4 * (at * 3.7 + f64::from(side)).sin());
            let level = if speak[side as usize] { 9_000.0 * syllable } else { 30.0 };
            wav.extend(((level * (at * hertz * std::f64::consts::TAU).sin()) as i16).to_le_bytes());
        }
    }
    let file = recording_file(folder, record.id);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder of the test's own");
    std::fs::write(file, wav).expect("a folder of the test's own");
}

fn age(number: u32, calls: u32) -> SignedDuration {
    let part = f64::from(number) / f64::from(calls);
    let days = 28.0 * part.powi(3) + 0.8 * part;
    // Nobody calls at night.
    SignedDuration::from_secs((days * 86_400.0) as i64 + 400)
}

fn record(number: u32, began: Timestamp) -> Record {
    let reason = match number % 23 {
        3 => EndReason::Transferred,
        7 | 15 => EndReason::AgentHungUp,
        11 => EndReason::AgentSilent,
        13 => EndReason::NoInput,
        19 => EndReason::OperatorEnded,
        22 => EndReason::EngineFault,
        _ => EndReason::CallerHungUp,
    };
    let (entries, turns) = conversation(number);
    let seconds = entries.last().map_or(5.0, |last| last.at_ms as f64 / 1_000.0 + 1.5);
    let context = ["library", "reservations", "library"][number as usize % 3];
    let provider = if number.is_multiple_of(5) { "gemini" } else { "openai" };
    let id = CallId::random();
    let recorded = Recorded { file: format!("{id}.wav"), began_ms: 0, seconds, lost_seconds: Default::default() };
    let (amount, parts) = (0.04 + f64::from(number % 17) * 0.006, turns.len() as u64 + 1);
    // The greeting's is that of turn 0.
    let in_turn = |turn| TurnUsed { turn, used: used(provider, parts, 0.0, amount / parts as f64) };
    Record {
        id,
        began,
        seconds,
        direction: Direction::Inbound,
        caller_number: Some(format!("+49301{:06}", number * 7_919 % 1_000_000)),
        caller_name: number.is_multiple_of(4).then(|| "Ada Byron".into()),
        dialled_number: Some("+4930123456".into()),
        campaign_id: None,
        lead_id: None,
        context: context.into(),
        provider: provider.into(),
        generation: 3,
        transport: "rtp".into(),
        format: "ulaw".into(),
        reason: Ending::from(reason),
        counts: Counts {
            agent_turns: turns.len() as u32 + 1,
            barge_ins: 1,
            tool_calls: 3,
            keys: 1,
            ..Counts::default()
        },
        turns,
        entries,
        left_out: 0,
        recording: (reason == EndReason::AgentSilent).then_some(recorded),
        usage: vec![used(provider, 1, seconds, amount)],
        turn_usage: (0..parts).map(in_turn).collect(),
    }
}

/// One of so many parts of what a call uses.
fn used(provider: &str, parts: u64, connected_seconds: f64, amount: f64) -> Used {
    let tokens = [("input_audio", 1_843), ("output_audio", 902), ("output_text", 211)];
    Used {
        provider: provider.into(),
        tokens: tokens.into_iter().map(|(kind, tokens)| (kind.to_owned(), tokens / parts)).collect(),
        transcribed_seconds: 0.0,
        connected_seconds,
        cost: Some(Cost { amount, currency: "EUR".into(), price_date: "2026-11-20".into(), unpriced: Vec::new() }),
    }
}

/// Who says what; `Some`: the caller interrupts it there.
const LINES: [(bool, &str, u64); 9] = [
    (true, "Good morning, this is the town library. How can I help you?", 3_600),
    (false, "Hello, are you open on Sunday?", 1_900),
    (true, "On Sundays we are closed. From Monday to Saturday we are open from nine to six, and on Thur—", 4_200),
    (false, "And can I renew a book with you?", 1_800),
    (true, "Of course. What is the number on your card?", 2_300),
    (false, "It is one seven four, double two, nine.", 2_900),
    (true, "One moment, I look that up.", 1_500),
    (true, "Thank you. \u{201c}The Sea, the Sea\u{201d} is yours until the fourteenth of December.", 4_100),
    (false, "Wonderful, thank you. Goodbye!", 1_700),
];

fn conversation(number: u32) -> (Vec<Entry>, Vec<Turn>) {
    let (mut entries, mut turns) = (Vec::new(), Vec::new());
    let mut at = 900;
    let mut push = |at_ms: u64, event| entries.push(Entry { at_ms, event });
    push(400, Event::Answered);
    push(700, Event::AgentReady);
    for (index, (agent, text, lasts)) in LINES.into_iter().enumerate() {
        let said = Event::Said { speaker: if agent { "agent" } else { "caller" }.into(), text: text.into() };
        let until = at + lasts;
        if agent {
            let wait = 500 + u64::from(number % 7) * 40 + index as u64 * 25;
            if index > 0 {
                turns.push(turn(turns.len() as u64 + 1, at, wait, index == 7));
            }
            push(at, Event::AgentSpeaks);
            push(at, said);
            match index {
                2 => push(until, Event::BargeIn { heard_ms: lasts }),
                _ => push(until, Event::AgentFinished),
            }
            if index == 4 {
                push(until - 900, Event::FalseAlarm { why: "backchannel".into() });
            }
        } else {
            push(at, Event::CallerSpeaks);
            push(at, said);
            push(until, Event::CallerFinished);
        }
        at = until + if agent { 650 } else { 780 };
        match index {
            2 => at = until - 250,
            5 => push(at - 300, Event::Tool { audit: audit("find_reader", 212, None) }),
            6 => {
                push(at - 200, Event::Tool { audit: audit("renew_loan", 1_340, None) });
                push(at + 90, Event::Key);
            }
            _ => {}
        }
    }
    if number % 23 == 11 {
        push(at, Event::Failing { reason: "agent_silent".into() });
        push(at + 100, Event::Tool { audit: audit("renew_loan", 8_000, Some("TIMEOUT")) });
    }
    entries.sort_by_key(|entry: &Entry| entry.at_ms);
    (entries, turns)
}

fn turn(turn: u64, at_ms: u64, wait: u64, tools: bool) -> Turn {
    let thinking_ms = if tools { wait + 1_500 } else { wait / 2 };
    let (endpointing_ms, speaking_ms, playout_ms) = (320 + wait / 6, wait / 4, 20);
    Turn {
        at_ms,
        turn,
        provider: "openai".into(),
        endpointing_ms,
        thinking_ms,
        speaking_ms,
        playout_ms,
        tools,
        filled: tools,
    }
}

fn audit(tool: &str, duration: u64, error: Option<&str>) -> serde_json::Map<String, Value> {
    let line = json!({
        "event": "tool_execution", "toolId": tool, "toolVersion": "1.0.3", "duration": duration, "ok": error.is_none(),
        "category": "http", "mode": "voice", "route": "accept", "gate_decision": "pass", "executor": "http",
        "turn": 4, "argument_keys": ["card", "title"],
    });
    let Value::Object(mut line) = line else { unreachable!("an object was written") };
    if let Some(error) = error {
        line.insert("errorType".into(), error.into());
    }
    line
}
