//! A call that lasted an hour and was recorded all the while: the longest page that *History* is asked for in earnest.

use anyhow::Context as _;
use jiff::Timestamp;
use offhook::records::{Archive as _, Entry, Event, Record, Recorded, Sqlite, Turn, TurnUsed, recording_file};
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
};

const SECONDS: u32 = 3_600;
const RATE: u32 = 8_000;
/// Bytes of one sample of both sides.
const SAMPLE: u32 = 4;
/// One side says a sentence, then the other does: as quickly as people take turns.
const SENTENCE_MS: u64 = 5_000;
/// What is left of it for the silence behind the sentence.
const SILENCE_MS: u64 = 800;
/// Samples for which a voice is equally loud: a syllable.
const SYLLABLE: u32 = RATE / 8;

/// Makes of a record that of a call of an hour, with its recording, and keeps both. `directory` is that of the records.
pub fn keep(directory: &Path, like: &Record) -> anyhow::Result<Record> {
    let id = like.id;
    let recorded = Recorded {
        file: format!("{id}.wav"),
        began_ms: 0,
        seconds: SECONDS.into(),
        lost_seconds: std::collections::BTreeMap::default(),
    };
    let (turn, used) = (like.turns.first().context("no turn")?, like.turn_usage.first().context("no usage")?);
    let numbers = 1..=u64::from(SECONDS) * 500 / SENTENCE_MS;
    let record = Record {
        began: Timestamp::now(),
        seconds: SECONDS.into(),
        entries: entries(),
        turns: numbers
            .clone()
            .map(|number| Turn { turn: number, at_ms: number * 2 * SENTENCE_MS, ..turn.clone() })
            .collect(),
        turn_usage: numbers.map(|turn| TurnUsed { turn, ..used.clone() }).collect(),
        recording: Some(recorded),
        ..like.clone()
    };
    let file = recording_file(directory, id);
    fs::create_dir_all(file.parent().context("no folder")?)?;
    write_sound(&file)?;
    Sqlite::open(&directory.join("calls.sqlite3"))?.put(std::slice::from_ref(&record))?;
    Ok(record)
}

fn entries() -> Vec<Entry> {
    let sentences = u64::from(SECONDS) * 1_000 / SENTENCE_MS;
    let of = |sentence: u64| {
        let (from, to) = (sentence * SENTENCE_MS, (sentence + 1) * SENTENCE_MS - SILENCE_MS);
        let (speaker, begins, ends) = match sentence % 2 {
            0 => ("agent", Event::AgentSpeaks, Event::AgentFinished),
            _ => ("caller", Event::CallerSpeaks, Event::CallerFinished),
        };
        let text = format!("Sentence {sentence} of a conversation that goes on for an hour.");
        let said = Event::Said { speaker: speaker.into(), text };
        [(from, begins), (to, ends), (to, said)].map(|(at_ms, event)| Entry { at_ms, event })
    };
    (0..sentences).flat_map(of).collect()
}

/// As the recorder writes it: the caller on the left, the agent on the right.
fn write_sound(path: &Path) -> anyhow::Result<()> {
    let data = SECONDS * RATE * SAMPLE;
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(b"RIFF")?;
    file.write_all(&(data + 36).to_le_bytes())?;
    file.write_all(b"WAVEfmt \x10\0\0\0\x01\0\x02\0")?;
    file.write_all(&RATE.to_le_bytes())?;
    file.write_all(&(RATE * SAMPLE).to_le_bytes())?;
    file.write_all(b"\x04\0\x10\0data")?;
    file.write_all(&data.to_le_bytes())?;
    // Loudness and wave by a small generator: what matters is that no two columns of the picture are alike.
    let (mut chance, mut loud) = (1_u32, 0);
    for sample in 0..SECONDS * RATE {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if sample % SYLLABLE == 0 {
            loud = (chance >> 18) as i32;
        }
        let at = u64::from(sample) * 1_000 / u64::from(RATE);
        let speaks = at % SENTENCE_MS < SENTENCE_MS - SILENCE_MS;
        let voice = if speaks { ((chance >> 16) as i32 - 32_768) * loud / 32_768 } else { 0 };
        let voice = (voice as i16).to_le_bytes();
        let agent = (at / SENTENCE_MS).is_multiple_of(2);
        let [left, right] = if agent { [[0, 0], voice] } else { [voice, [0, 0]] };
        file.write_all(&[left[0], left[1], right[0], right[1]])?;
    }
    Ok(file.flush()?)
}
