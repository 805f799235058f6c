//! Records of ended calls in the terminal: a list, one call, its deletion.

use super::{default_file, place_in};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::{Timestamp, Zoned, tz::TimeZone};
use offhook::{
    facts::CallId,
    records::{self, Event, Record, Row, Search, party_named},
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args)]
pub struct Place {
    /// The configuration, whose section `records` says where they are.
    #[arg(long, value_name = "FILE", default_value_os_t = default_file())]
    config: PathBuf,
    /// Their folder itself, where the configuration cannot be read here.
    #[arg(long, value_name = "FOLDER", conflicts_with = "config")]
    records: Option<PathBuf>,
}

#[derive(Args)]
pub struct CallsArguments {
    #[command(flatten)]
    place: Place,
    /// Calls that began at this time or later: 2026-11-20, 2026-11-20T14:30, today, yesterday or -24h.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    since: Option<Timestamp>,
    /// Calls that began before it.
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    until: Option<Timestamp>,
    /// Calls that this context had when they ended.
    #[arg(long)]
    context: Option<String>,
    /// Calls that this provider had when they ended.
    #[arg(long)]
    provider: Option<String>,
    /// Why they ended: a reason (`caller_hung_up`) or a class of reasons (`provider`), as in docs/endings.md; or `not_normal`, every class but `normal`.
    #[arg(long, value_parser = records::reason)]
    reason: Option<String>,
    /// The caller's number or the one that was dialled, or the end of it.
    #[arg(long)]
    number: Option<String>,
    /// Words that were said in them.
    #[arg(long)]
    words: Option<String>,
    /// At most so many, the newest first.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[arg(long, value_enum, default_value_t = Layout::Table)]
    format: Layout,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// For people.
    Table,
    /// One whole record in each line, with everything that was said.
    Json,
    /// One call in each line, for a spreadsheet.
    Csv,
}

#[derive(Args)]
pub struct CallArguments {
    #[command(flatten)]
    place: Place,
    /// The call's id as the log has it, or its beginning, as the pages show it.
    #[arg(value_name = "ID", value_parser = id)]
    id: String,
    /// The whole record as JSON.
    #[arg(long)]
    json: bool,
    /// Delete everything that is kept of it.
    #[arg(long, conflicts_with = "json")]
    delete: bool,
}

/// As many of an id as the pages show.
const DIGITS_MIN: usize = 8;
/// Calls that are told of when an id is not enough.
const ALIKE_MAX: usize = 5;
/// Rows that are asked for at once.
const PAGE: usize = 500;

pub fn calls(arguments: &CallsArguments) -> ExitCode {
    told(list(arguments))
}

pub fn call(arguments: &CallArguments) -> ExitCode {
    told(one(arguments))
}

fn told(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        // Whoever reads the list has seen enough of it (`offhook calls | head`).
        let gone = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if gone {
            return ExitCode::SUCCESS;
        }
        eprintln!("offhook: {error:#}");
        ExitCode::from(3)
    })
}

impl Place {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.records {
            return Ok(folder.clone());
        }
        let found = place_in(&self.config, |config| config.records.map(|records| records.directory))
            .map_err(|problems| anyhow::anyhow!("{problems}\n(--records FOLDER does without the configuration)"))?;
        let none = "there is no section records in this configuration, so no record is kept; add: records: { directory: FOLDER }";
        found.ok_or_else(|| anyhow::anyhow!(none))
    }
}

fn list(arguments: &CallsArguments) -> anyhow::Result<ExitCode> {
    let folder = arguments.place.folder()?;
    // One that looks in the wrong place is not to read that nothing happened.
    let none = || {
        anyhow::anyhow!(
            "there are no records in {}: an engine makes the archive there when it starts",
            folder.display()
        )
    };
    let archive = records::read(&folder)?.ok_or_else(none)?;
    let mut search = Search {
        id: None,
        since: arguments.since,
        until: arguments.until,
        context: arguments.context.clone(),
        provider: arguments.provider.clone(),
        reason: arguments.reason.clone(),
        number: arguments.number.clone(),
        words: arguments.words.clone(),
        after: None,
        limit: 0,
    };
    let mut out = io::stdout().lock();
    let mut left = arguments.limit as usize;
    let mut table = csv::Writer::from_writer(Vec::new());
    if arguments.format == Layout::Table {
        let began = Zoned::now().strftime("began (%Z)").to_string();
        writeln!(
            out,
            "{:<36}  {:<16}  {:>8}  {:<16}  {:<16}  why it ended",
            "call", began, "lasted", "context", "caller"
        )?;
    }
    while left > 0 {
        search.limit = left.min(PAGE);
        let rows = archive.find(&search)?;
        for row in &rows {
            match arguments.format {
                Layout::Table => line(&mut out, row)?,
                Layout::Csv => table.serialize(row.clone().for_spreadsheets())?,
                Layout::Json => {
                    if let Some(record) = archive.get(row.id)? {
                        writeln!(out, "{}", serde_json::to_string(&record)?)?;
                    }
                }
            }
        }
        out.write_all(
            &std::mem::replace(&mut table, csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new()))
                .into_inner()?,
        )?;
        left -= rows.len();
        search.after = rows.last().map(|row| row.row);
        if rows.len() < search.limit {
            break;
        }
    }
    if left == arguments.limit as usize {
        eprintln!("no call matches");
    }
    Ok(ExitCode::SUCCESS)
}

fn line(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let began = local(row.began).strftime("%Y-%m-%d %H:%M");
    let caller = row.caller_number.as_deref().unwrap_or("–");
    let (lasted, context) = (format!("{:.0} s", row.seconds), &row.context);
    writeln!(out, "{:<36}  {began:<16}  {lasted:>8}  {context:<16}  {caller:<16}  {}", row.id.to_string(), row.reason)
}

fn one(arguments: &CallArguments) -> anyhow::Result<ExitCode> {
    let folder = arguments.place.folder()?;
    let unknown = format!("no record of call {} is kept in {}", arguments.id, folder.display());
    let id = whole(&arguments.id, &folder)?.with_context(|| unknown.clone())?;
    if arguments.delete {
        let deleted = records::delete(&folder, id)?;
        anyhow::ensure!(deleted.found, unknown);
        println!(
            "everything that was kept of call {id} is deleted, its recording included; log lines are not part of it"
        );
        if deleted.stands {
            println!("the call has not ended; nothing more of it is kept when it does");
        }
        if deleted.lingers {
            println!(
                "somebody is reading the archive: its journal holds what was deleted until an engine that runs clears it"
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let record = match records::read(&folder)? {
        Some(archive) => archive.get(id)?,
        None => None,
    };
    let record = record.context(unknown)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    } else {
        story(&mut out, &record, &folder)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The only call whose id is this or begins so; `None`: no record of such a one is kept.
fn whole(id: &str, folder: &Path) -> anyhow::Result<Option<CallId>> {
    // Also one without a record: what else is kept of it can be deleted.
    if let Ok(id) = id.parse() {
        return Ok(Some(CallId(id)));
    }
    let Some(archive) = records::read(folder)? else { return Ok(None) };
    let rows = archive.find(&Search { id: Some(id.to_owned()), limit: ALIKE_MAX, ..Search::default() })?;
    if let [_, _, ..] = rows[..] {
        let ids: Vec<_> = rows.iter().map(|row| row.id.to_string()).collect();
        anyhow::bail!("several calls begin with {id}, and more of the id is needed: {}", ids.join(", "));
    }
    Ok(rows.first().map(|row| row.id))
}

/// What happened, in order, for a person.
fn story(out: &mut impl Write, record: &Record, folder: &Path) -> io::Result<()> {
    let began = local(record.began).strftime("%Y-%m-%d %H:%M:%S %Z");
    writeln!(out, "call {}", record.id)?;
    writeln!(out, "began {began}, lasted {:.1} s", record.seconds)?;
    writeln!(out, "why it ended: {} ({}, {})", record.reason.description, record.reason.label, record.reason.class)?;
    let (number, dialled) = (record.caller_number.as_deref(), record.dialled_number.as_deref());
    writeln!(out, "caller {}, dialled {}", number.unwrap_or("–"), dialled.unwrap_or("–"))?;
    let (context, provider, generation) = (&record.context, &record.provider, record.generation);
    writeln!(
        out,
        "context {context}, provider {provider}, configuration {generation}, {} {}",
        record.transport, record.format
    )?;
    for used in &record.usage {
        let cost =
            used.cost.as_ref().map_or_else(String::new, |cost| format!(", {:.4} {}", cost.amount, cost.currency));
        writeln!(out, "used {}: {:.0} s connected{cost}", used.provider, used.connected_seconds)?;
    }
    if let Some(recording) = &record.recording {
        let file = records::recording_file(folder, record.id);
        let place = if file.exists() { file.display().to_string() } else { "not there any more".into() };
        let lost: f64 = recording.lost_seconds.values().sum();
        let lost = if lost > 0.0 { format!(", {lost:.1} s of it were lost and are silent") } else { String::new() };
        writeln!(out, "recording: {place} ({:.1} s{lost})", recording.seconds)?;
    }
    writeln!(out)?;
    for entry in &record.entries {
        if let Some(words) = words(&entry.event) {
            writeln!(out, "{:>9.2} s  {words}", entry.at_ms as f64 / 1_000.0)?;
        }
    }
    if record.left_out > 0 {
        writeln!(out, "{} more are not kept: there is a limit for one call", record.left_out)?;
    }
    for turn in &record.turns {
        let total = turn.endpointing_ms + turn.thinking_ms + turn.speaking_ms + turn.playout_ms;
        writeln!(
            out,
            "turn {}: answered after {total} ms (end of turn {}, answer begun {}, first audio {}, heard {})",
            turn.turn, turn.endpointing_ms, turn.thinking_ms, turn.speaking_ms, turn.playout_ms
        )?;
    }
    Ok(())
}

/// `None`: what the others tell as well.
fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Answered => "answered".into(),
        Event::Said { speaker, text } => format!("{speaker}: {text}"),
        Event::BargeIn { heard_ms } => format!("the caller interrupts; {heard_ms} ms of the answer were heard"),
        Event::Key => "the caller presses a key".into(),
        Event::Tool { audit } => {
            let text = |key: &str| audit.get(key).and_then(|value| value.as_str()).unwrap_or("–");
            let error = audit.get("errorType").and_then(|value| value.as_str());
            format!("tool {}: {}", text("toolId"), error.unwrap_or("OK"))
        }
        Event::Confirmed { answer } => format!("asked whether a tool may run, the caller says {answer}"),
        Event::Sentence { purpose } => format!("the engine says a sentence ({purpose})"),
        Event::HalfDuplex { on: true } => "the line's echo is too heavy for interruptions by voice".into(),
        Event::HalfDuplex { on: false } => "the line's echo is gone".into(),
        Event::Held { on: true } => "the caller puts the call on hold; the agent waits".into(),
        Event::Held { on: false } => "the caller takes the call up again".into(),
        Event::PartyChanged { number, name } => match party_named(number.as_deref(), name.as_deref()) {
            unknown if unknown.is_empty() => "another person takes the caller's place".into(),
            party => format!("another person ({party}) takes the caller's place"),
        },
        Event::PartyKnown { number: None, name: None } => return None,
        Event::PartyKnown { number, name } => {
            format!("the person in the caller's place is known: {}", party_named(number.as_deref(), name.as_deref()))
        }
        Event::PathReplaced { why } => format!("the audio path broke ({why}); another one took its place"),
        Event::Dialling { why } => format!("another session is dialled ({why})"),
        Event::ProviderRefused { provider, status } => format!("{provider} refuses with HTTP status {status}"),
        Event::TookOver { provider, .. } => format!("it goes on with {provider}"),
        Event::HandedOff { context } => format!("handed to {context}"),
        Event::NoInput => "the caller is asked whether they are there".into(),
        Event::Failing { reason } => format!("failing: {reason}"),
        Event::Transferring { to, voicemail, by, account } => {
            let place = if *voicemail { format!("the mailbox {to}") } else { to.clone() };
            let by = account.as_ref().map_or_else(|| by.clone(), |account| format!("{by} {account}"));
            format!("the caller is sent to {place} (by: {by})")
        }
        Event::Transferred => "the caller was handed over".into(),
        Event::HungUp { account } => format!("the operator {account} hangs up"),
        Event::NotGranted { variable, why } => format!("{variable}: {why}; the call goes on without it"),
        Event::TransferFailed { reason, cause: None } => format!("the transfer failed: {reason}"),
        Event::TransferFailed { reason, cause: Some(cause) } => {
            format!("the transfer failed: {reason}; the place hung up on the caller (Q.850 cause {cause})")
        }
        Event::Recording { state } => match state.as_str() {
            "notice" => "recording: the notice is heard, nothing of the caller is kept yet".into(),
            "on" => "recording: on".into(),
            "private" => "recording: paused, the caller types what only tools may see".into(),
            "discarded" => "recording: deleted, the caller does not want it".into(),
            _ => "recording: off".into(),
        },
        Event::AgentReady
        | Event::AgentSpeaks
        | Event::AgentFinished
        | Event::CallerSpeaks
        | Event::CallerFinished
        | Event::Typed
        | Event::FalseAlarm { .. } => return None,
    })
}

fn local(time: Timestamp) -> Zoned {
    time.to_zoned(TimeZone::system())
}

/// A call's id, or how it begins.
fn id(text: &str) -> Result<String, String> {
    let of_one = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let shown = text.bytes().all(of_one) && (DIGITS_MIN..=uuid::fmt::Hyphenated::LENGTH).contains(&text.len());
    shown.then(|| text.to_ascii_lowercase()).ok_or_else(|| {
        format!("expected a call's id, such as 0e3f2c9a-7b1d-4a3e-9f65-1c2d3e4f5a6b, or the first {DIGITS_MIN} or more of it")
    })
}

/// A day, a time, or how long ago, where the program runs; or a time with its zone.
fn time(text: &str) -> Result<Timestamp, String> {
    records::time(text, &Zoned::now()).ok_or_else(|| format!("expected {}", records::TIMES))
}
