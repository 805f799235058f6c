//! What happens in a call, written down while it happens, within bounds.

use super::{Counts, Ending, Entry, Event, Record, Recorded, Speeches, Turn, TurnUsed, Used};
use crate::{
    audio::Format,
    call::{Dialling, Initiator, Note, Speaker, TransferTarget, TurnTimes},
    config::RecordsConfig,
    facts::CallFacts,
    redact::without_dictated_numbers,
    tool::Verdict,
};
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// Entries of one call, its turns and what they used: an hour with ten of them a minute, ten times over.
const ENTRIES_MAX: usize = 6_000;
/// Bytes of texts and audit lines of one call.
const BYTES_MAX: usize = 512 * 1024;

pub struct Diary {
    began: Timestamp,
    words: bool,
    numbers: bool,
    masked: bool,
    speeches: Speeches,
    entries: Vec<Entry>,
    turns: Vec<Turn>,
    turn_usage: Vec<TurnUsed>,
    bytes: usize,
    left_out: u64,
}

/// What is known of a call only when it is over.
pub struct Close {
    pub context: String,
    pub provider: String,
    pub seconds: f64,
    pub generation: u64,
    pub transport: String,
    pub format: String,
    pub reason: Ending,
    pub counts: Counts,
    pub usage: Vec<Used>,
    pub recording: Option<Recorded>,
}

impl Close {
    /// What is known of a call that has just begun, in case that its end is never written down.
    pub fn of_a_beginning(facts: &CallFacts, generation: u64, transport: &str, format: Format) -> Self {
        Self {
            context: facts.context.clone(),
            provider: facts.provider.clone(),
            seconds: 0.0,
            generation,
            transport: transport.to_owned(),
            format: format.to_string(),
            reason: Ending::killed(),
            counts: Counts::default(),
            usage: Vec::new(),
            recording: None,
        }
    }
}

impl Diary {
    pub fn new(config: &RecordsConfig, began: Timestamp) -> Self {
        Self {
            began,
            words: config.words,
            numbers: config.numbers,
            masked: false,
            speeches: Speeches::default(),
            entries: Vec::new(),
            turns: Vec::new(),
            turn_usage: Vec::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    /// Of what is said, numbers of people are not kept (V20); of a client of VAM, neither is its own.
    pub fn masking(self, is_client: bool) -> Self {
        Self { masked: true, numbers: self.numbers && !is_client, ..self }
    }

    pub fn note(&mut self, at: Duration, note: &Note) {
        let at = self.speeches.began(at, note);
        let Some(mut event) = Event::of(note, self.words) else { return };
        if let Event::Said { text, .. } = &mut event
            && self.masked
        {
            *text = without_dictated_numbers(text);
        }
        if let (
            Event::PartyChanged { number, name } | Event::PartyKnown { number, name },
            Note::PartyChanged(party) | Note::PartyKnown(party),
        ) = (&mut event, note)
            && self.numbers
        {
            number.clone_from(party.number.reveal());
            name.clone_from(party.name.reveal());
        }
        let bytes = match &event {
            Event::Said { text, .. } => text.len(),
            // A line of the audit log is bounded in itself; this is its usual length.
            Event::Tool { .. } => 600,
            _ => 0,
        };
        if self.is_full() || self.bytes + bytes > BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.entries.push(Entry { at_ms: ms(at), event });
    }

    pub fn turn(&mut self, at: Duration, provider: &str, times: &TurnTimes) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.turns.push(Turn {
            at_ms: ms(at),
            turn: times.turn,
            provider: provider.to_owned(),
            endpointing_ms: ms(times.endpointing),
            thinking_ms: ms(times.thinking),
            speaking_ms: ms(times.speaking),
            playout_ms: ms(times.playout),
            tools: times.tools,
            filled: times.filled,
        });
    }

    pub fn used(&mut self, used: TurnUsed) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.turn_usage.push(used);
    }

    fn is_full(&self) -> bool {
        self.entries.len() + self.turns.len() + self.turn_usage.len() >= ENTRIES_MAX
    }

    pub fn close(mut self, facts: &CallFacts, close: Close) -> Record {
        // Words come later than they began.
        self.entries.sort_by_key(|entry| entry.at_ms);
        let private =
            |number: &crate::redact::Redacted<Option<String>>| number.reveal().clone().filter(|_| self.numbers);
        let Close { context, provider, seconds, generation, transport, format, reason, counts, usage, recording } =
            close;
        Record {
            id: facts.id,
            began: self.began,
            seconds,
            direction: facts.direction,
            caller_number: private(&facts.caller_number),
            caller_name: private(&facts.caller_name),
            dialled_number: private(&facts.dialled_number),
            campaign_id: facts.campaign_id.clone(),
            lead_id: facts.lead_id.clone(),
            context,
            provider,
            generation,
            transport,
            format,
            reason,
            counts,
            turns: self.turns,
            entries: self.entries,
            left_out: self.left_out,
            usage,
            turn_usage: self.turn_usage,
            recording,
        }
    }
}

impl Event {
    /// `None`: it is told elsewhere in the record, is a word where none are wanted, or is of no interest when the call is over.
    pub fn of(note: &Note, words: bool) -> Option<Self> {
        Some(match note {
            Note::Answered => Self::Answered,
            Note::AgentReady => Self::AgentReady,
            Note::AgentSpeaks => Self::AgentSpeaks,
            Note::AgentFinished => Self::AgentFinished,
            Note::CallerSpeaks => Self::CallerSpeaks,
            Note::CallerFinished => Self::CallerFinished,
            Note::BargeIn { heard } => Self::BargeIn { heard_ms: ms(*heard) },
            Note::Said { .. } if !words => return None,
            Note::Said { speaker, text } => {
                let speaker = match speaker {
                    Speaker::Caller => "caller",
                    Speaker::Agent => "agent",
                };
                Self::Said { speaker: speaker.into(), text: text.reveal().clone() }
            }
            Note::Digit(_) => Self::Key,
            Note::Typed => Self::Typed,
            Note::Audit(audit) => match serde_json::to_value(audit) {
                Ok(Value::Object(audit)) => Self::Tool { audit },
                _ => return None,
            },
            Note::Confirmed(verdict) => Self::Confirmed { answer: answer(*verdict).into() },
            Note::HandedOff { context } => Self::HandedOff { context: context.clone() },
            Note::NoInputPrompt => Self::NoInput,
            Note::Spoke { purpose } => Self::Sentence { purpose: (*purpose).into() },
            Note::FalseAlarm { why } => Self::FalseAlarm { why: (*why).into() },
            Note::HalfDuplex(on) => Self::HalfDuplex { on: *on },
            Note::Held(on) => Self::Held { on: *on },
            // Numbers and names are added by a diary that may keep them.
            Note::PartyChanged(_) => Self::PartyChanged { number: None, name: None },
            Note::PartyKnown(_) => Self::PartyKnown { number: None, name: None },
            Note::PathReplaced { why } => Self::PathReplaced { why: (*why).into() },
            Note::Dialling(Dialling::Rollover) => Self::Dialling { why: "rollover".into() },
            Note::Dialling(Dialling::Recovery(loss)) => Self::Dialling { why: loss.label().into() },
            Note::ProviderRefused { provider, status } => {
                Self::ProviderRefused { provider: provider.clone(), status: *status }
            }
            Note::TookOver { provider, resumed } => Self::TookOver { provider: provider.clone(), resumed: *resumed },
            Note::Failing(reason) => Self::Failing { reason: reason.label() },
            Note::Transferring { to, by } => {
                let (to, voicemail) = match to {
                    TransferTarget::Destination(name) => (name.clone(), false),
                    TransferTarget::Mailbox(name) => (name.clone(), true),
                };
                let account = if let Initiator::Operator(account) = by { Some(account.clone()) } else { None };
                Self::Transferring { to, voicemail, by: by.label().into(), account }
            }
            Note::Transferred => Self::Transferred,
            Note::HungUp { account } => Self::HungUp { account: account.clone() },
            Note::NotGranted { variable, why } => Self::NotGranted { variable: (*variable).into(), why: why.clone() },
            Note::TransferFailed(fault) => Self::TransferFailed { reason: fault.label().into(), cause: None },
            Note::Recording(state) => Self::Recording { state: state.label().into() },
            Note::ToolAnswered { .. }
            | Note::UnknownTool { .. }
            | Note::AgentAnswered
            | Note::Announced { .. }
            | Note::SentenceOver
            | Note::SentenceCut
            | Note::Quiet
            | Note::Lull
            | Note::Stumbled(_)
            | Note::ToolCancelled { .. }
            | Note::ActionRefused(_) => return None,
        })
    }
}

const fn answer(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Granted => "yes",
        Verdict::Declined => "no",
        Verdict::Unheard => "too early",
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
