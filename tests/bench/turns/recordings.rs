//! The set of human recordings, as `tests/fixtures/speech/make.py` makes it: G.711 µ-law at 8 kHz, speech at -20 dBFS and
//! everything else at -30. Compiled into `offhook-bench` and into the test that holds its bars.

use anyhow::Context as _;
use offhook::audio::{AUDIBLE_DBFS, Format, rms_dbfs};
use std::{fs, path::Path};

/// 10 ms at 8 kHz.
const STEP: usize = 80;

/// The purpose of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// One sentence, whole or cut.
    Turn,
    Word,
    Letter,
    Digit,
    /// Read by speakers of whom nothing else is in the set.
    Prose,
    Music,
    Babble,
    Television,
    Noise,
}

impl Use {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "turn" => Self::Turn,
            "word" => Self::Word,
            "letter" => Self::Letter,
            "digit" => Self::Digit,
            "prose" => Self::Prose,
            "music" => Self::Music,
            "babble" => Self::Babble,
            "tv" => Self::Television,
            "noise" => Self::Noise,
            _ => return None,
        })
    }
}

/// How a sentence was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was not.
    Whole,
    /// Behind a word that cannot end a sentence.
    Phrase,
    /// At a pause of its speaker; what stands before it could often end there.
    Pause,
}

/// One half of the set is for tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Tuning,
    Judging,
}

/// A sound from its first audible sample to its last.
#[derive(Debug, Clone)]
pub struct Sound {
    pub samples: Vec<i16>,
    /// Its words; empty where nobody wrote them down.
    pub text: String,
}

impl Sound {
    fn trimmed(samples: &[i16], text: &str) -> Self {
        let audible = |step: &[i16]| rms_dbfs(step) > AUDIBLE_DBFS;
        let begin = samples.chunks(STEP).position(audible).unwrap_or(0) * STEP;
        let end = samples.chunks(STEP).rposition(audible).map_or(0, |last| (last + 1) * STEP);
        let samples = samples.get(begin..end.min(samples.len())).unwrap_or_default().to_vec();
        Self { samples, text: text.trim().trim_end_matches(['.', ',']).to_owned() }
    }

    /// What is audible of it, without the pauses.
    pub fn without_pauses(&self) -> Vec<i16> {
        let audible = self.samples.chunks(2 * STEP).filter(|frame| rms_dbfs(frame) > AUDIBLE_DBFS);
        audible.flatten().copied().collect()
    }

    pub fn ms(&self) -> usize {
        self.samples.len() / 8
    }
}

pub struct Recording {
    pub id: String,
    pub used_as: Use,
    pub cut: Cut,
    pub speaker: String,
    pub half: Half,
    pub sound: Sound,
    /// What follows behind the cut.
    pub rest: Option<Sound>,
}

pub fn read(folder: &Path) -> anyhow::Result<Vec<Recording>> {
    let list = folder.join("set.tsv");
    let list = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let line = |line: &str| recording(folder, line).with_context(|| format!("set.tsv: {line}"));
    list.lines().skip(1).map(line).collect()
}

fn recording(folder: &Path, line: &str) -> anyhow::Result<Recording> {
    let [id, used_as, how, _, speaker, _, text] = <[&str; 7]>::try_from(line.split('\t').collect::<Vec<_>>())
        .map_err(|_| anyhow::anyhow!("not seven columns"))?;
    let samples = |name: &str| -> anyhow::Result<Vec<i16>> {
        let path = folder.join(name);
        let mut samples = Vec::new();
        Format::ULAW.decode(&fs::read(&path).with_context(|| path.display().to_string())?, &mut samples);
        Ok(samples)
    };
    let cut = match how {
        "phrase" => Cut::Phrase,
        "pause" => Cut::Pause,
        _ => Cut::Whole,
    };
    let (said, follows) = text.split_once('|').unwrap_or((text, ""));
    let sound = Sound::trimmed(&samples(&format!("{id}.ul"))?, said);
    let rest = match cut {
        Cut::Whole => None,
        _ => Some(Sound::trimmed(&samples(&format!("{id}.rest.ul"))?, follows)),
    };
    // Names end in a number.
    let number = id.bytes().next_back().unwrap_or_default();
    Ok(Recording {
        id: id.to_owned(),
        used_as: Use::parse(used_as).context("an unknown use")?,
        cut,
        speaker: speaker.to_owned(),
        half: if number % 2 == 1 { Half::Judging } else { Half::Tuning },
        sound,
        rest,
    })
}
