//! The figures of all rounds, as a table for people.

use super::{
    run::{Figures, Plan},
    samples::{Samples, median, percentile},
    system::Kind,
};
use std::{process::ExitCode, time::Duration};

/// At most this share of the 20 ms slots may pass without a frame.
pub const MISSED_MAX: f64 = 0.1;
const MEGABYTE: f64 = 1_048_576.0;
const NAME_WIDTH: usize = 46;
const VALUE_WIDTH: usize = 11;
/// The caller begins to speak → last agent frame, p95.
pub const BARGE_IN_MAX_MS: f64 = 100.0;

/// Where a vendor says that the caller speaks: from its word to the last agent frame, p99. One frame is on its way then.
const STOP_MAX_MS: f64 = 40.0;
/// What the engine adds from the caller to a vendor, p99.
const UP_MAX_MS: f64 = 5.0;
/// And back, p99; up to 20 of it are the wait for the next frame.
const DOWN_MAX_MS: f64 = 25.0;
/// Of resident memory, for each call.
const MEMORY_MAX_MB: f64 = 0.5;

/// The caller's last voiced frame → request to the model, and first sound of the voice → caller, p95.
const SHARE_MAX_MS: f64 = 300.0;
/// The model has written at most so many tokens beyond a clause when it comes to the voice.
const TOKENS_MAX: usize = 1;

/// All rounds of one kind of system.
pub struct Rounds {
    pub kind: Kind,
    pub rounds: Vec<Figures>,
}

/// One line of the table.
struct Row {
    name: &'static str,
    digits: usize,
    of: fn(&Rounds) -> Option<f64>,
}

const fn row(name: &'static str, digits: usize, of: fn(&Rounds) -> Option<f64>) -> Row {
    Row { name, digits, of }
}

const ROWS: [Row; 20] = [
    row("CPU per call, % of a core", 3, |all| all.median(|figures| Some(figures.cpu))),
    row("memory per call, MB", 3, |all| all.median(|figures| Some(figures.memory / MEGABYTE))),
    row("provider → caller, ms, p50", 1, |all| all.percentile(|samples| &samples.down, 50.0)),
    row("                       p99", 1, |all| all.percentile(|samples| &samples.down, 99.0)),
    row("caller → provider, ms, p50", 1, |all| all.percentile(|samples| &samples.up, 50.0)),
    row("                       p99", 1, |all| all.percentile(|samples| &samples.up, 99.0)),
    row("speech started → last agent frame, ms, p50", 1, |all| all.percentile(|samples| &samples.barge_in, 50.0)),
    row("                                       p99", 1, |all| all.percentile(|samples| &samples.barge_in, 99.0)),
    row("engine's share of a turn, ms, p50", 1, |all| all.percentile(|samples| &samples.share, 50.0)),
    row("                              p95", 1, |all| all.percentile(|samples| &samples.share, 95.0)),
    row("connected → greeting, ms, p50", 1, |all| all.percentile(|samples| &samples.set_up, 50.0)),
    row("                          p95", 1, |all| all.percentile(|samples| &samples.set_up, 95.0)),
    row("20 ms slots missed at the caller, %", 4, Rounds::missed),
    row("longest gap at a caller, ms", 1, Rounds::longest_gap),
    row("20 ms slots given up by the engine, %", 4, Rounds::given_up),
    row("lateness of the engine's clock, ms, p99 below", 1, |all| all.median(|figures| figures.engine.as_ref()?.late)),
    row("callers' frames not taken, %", 4, |all| Some(all.share(|samples| samples.refused as f64))),
    row("(the load's own lateness, ms, p99)", 1, |all| all.percentile(|samples| &samples.late, 99.0)),
    row("(the load's share of its core, %)", 0, |all| all.median(|figures| Some(figures.load_busy))),
    row("(others' share of the core under test, %)", 0, |all| all.median(|figures| figures.others)),
];

const LEGEND: &str = "  \
  floor       one TCP connection from the caller and one to the provider for each call, bytes copied both ways as
              they come; no codec, no JSON, no clock
  the others  `offhook run` with that provider against an emulated server on a WebSocket: the agent speaks two
              thirds of the time, faster than real time, and is interrupted now and then
  openai      8 kHz to 24 kHz and back, base64, JSON
  gemini      8 kHz to 16 kHz, 24 kHz to 8 kHz, base64, JSON in binary frames
  deepgram    the leg's own format, raw
  elevenlabs  linear to µ-law and back, base64, JSON
  pipeline    questions of espeak-ng every five seconds, in the leg's own format; a listener, a model and a voice on
              three connections, none of which takes time of its own; answers of two clauses, token by token
  scripted    offhook's own agent, which sends the caller's audio back: bytes pass through unchanged; no socket
              to a provider, so the floor has one more and no latency to it can be measured

  Percentiles are of all rounds together; CPU and memory are the median of the rounds. The load looks at its sockets
  every 0.2 ms and is not woken by what comes, which whoever sends would pay for: up to 0.3 ms of each latency is that.
  provider → caller  from the first audio message of an answer until its first loud frame is read. The engine
                     sends a frame every 20 ms, so 0 to 20 ms of it is the wait for the next one.
  caller → provider  from a loud frame written until the first loud audio message is read
  speech started →   from the provider's word; 0 when the agent's last frame had been read before
  engine's share     of a pipeline's turn, which ends after 200 ms of silence: from the caller's last voiced frame until
                     the model is asked, and from the voice's first sound until it is heard
  missed             a gap of 40 ms or more between two frames at the caller; frames that come late and then
                     together count too
  memory             resident memory at the end of the window less that of the idle process, by calls
";

impl Rounds {
    fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(of))
    }

    fn cpu(&self) -> Option<f64> {
        self.median(|figures| Some(figures.cpu))
    }

    fn percentile(&self, of: impl Fn(&Samples) -> &Vec<Duration>, percent: f64) -> Option<f64> {
        let all: Vec<Duration> = self.rounds.iter().flat_map(|figures| of(&figures.samples)).copied().collect();
        percentile(&all, percent)
    }

    fn most(&self, of: impl Fn(&Samples) -> &Vec<usize>) -> Option<usize> {
        self.rounds.iter().flat_map(|figures| of(&figures.samples)).max().copied()
    }

    /// Percent of all slots.
    fn share(&self, of: impl Fn(&Samples) -> f64) -> f64 {
        let slots: u64 = self.rounds.iter().map(|figures| figures.samples.slots).sum();
        self.rounds.iter().map(|figures| of(&figures.samples)).sum::<f64>() / slots.max(1) as f64 * 100.0
    }

    fn missed(&self) -> Option<f64> {
        Some(self.share(|samples| samples.missed as f64))
    }

    fn longest_gap(&self) -> Option<f64> {
        self.rounds.iter().map(|figures| figures.samples.longest_gap.as_secs_f64() * 1e3).max_by(f64::total_cmp)
    }

    fn given_up(&self) -> Option<f64> {
        let slots: u64 = self.rounds.iter().map(|figures| figures.samples.slots).sum();
        let missed: Vec<f64> = self.rounds.iter().filter_map(|figures| Some(figures.engine.as_ref()?.missed)).collect();
        (!missed.is_empty()).then(|| missed.iter().sum::<f64>() / slots.max(1) as f64 * 100.0)
    }

    fn lost(&self) -> u64 {
        self.rounds.iter().map(|figures| figures.samples.lost).sum()
    }
}

pub fn print(plan: &Plan, all: &[Rounds], bars: &mut Bars) {
    let rounds = all.first().map_or(0, |rounds| rounds.rounds.len());
    println!("\n{} calls, {} rounds of {} s each\n", plan.calls, rounds, plan.window.as_secs());
    print!("{:NAME_WIDTH$}", "");
    for (index, rounds) in all.iter().enumerate() {
        print!("{:>VALUE_WIDTH$}{}", rounds.kind.name(), if index == 0 { "" } else { "  ratio" });
    }
    println!();
    for row in &ROWS {
        let floor = all.first().and_then(|floor| (row.of)(floor));
        print!("{:NAME_WIDTH$}", row.name);
        for (index, rounds) in all.iter().enumerate() {
            let value = (row.of)(rounds);
            match value {
                Some(value) => print!("{value:>VALUE_WIDTH$.*}", row.digits),
                None => print!("{:>VALUE_WIDTH$}", "–"),
            }
            if index > 0 {
                // What stands in parentheses is about the measurement, not about the systems.
                let floor = floor.filter(|floor| *floor > 0.0 && !row.name.starts_with('('));
                match (value, floor) {
                    (Some(value), Some(floor)) => print!("{:>7.1}", value / floor),
                    _ => print!("{:>7}", ""),
                }
            }
        }
        println!();
    }
    println!("\n{LEGEND}");
    for rounds in all {
        for (index, figures) in rounds.rounds.iter().enumerate() {
            for doubt in figures.doubts() {
                println!("NOT USABLE  {}, round {}: {doubt}", rounds.kind.name(), index + 1);
            }
        }
        if rounds.lost() > 0 {
            println!("NOT USABLE  {}: {} calls were lost", rounds.kind.name(), rounds.lost());
        }
    }
    hold(all, plan.calls, plan.cores.is_some(), bars);
}

/// What a call costs there, in percent of a core.
pub fn floor(all: &[Rounds]) -> Option<f64> {
    all.iter().find(|rounds| rounds.kind == Kind::Floor)?.cpu().filter(|cpu| *cpu > 0.0)
}

fn hold(all: &[Rounds], calls: usize, pinned: bool, bars: &mut Bars) {
    let floor = floor(all);
    for rounds in all.iter().filter(|rounds| rounds.kind != Kind::Floor) {
        let missed = rounds.missed().unwrap_or(100.0);
        let disturbed = !pinned || rounds.rounds.iter().any(|figures| !figures.doubts().is_empty());
        let kind = rounds.kind.name();
        let name = format!("slots missed at the caller, {kind}");
        bars.bar(&name, &format!("{missed:.4} %"), &format!("{MISSED_MAX} %"), missed <= MISSED_MAX, disturbed);
        if let (Some(most), Some(ratio)) =
            (rounds.kind.cpu_max(calls), rounds.cpu().zip(floor).map(|(cpu, floor)| cpu / floor))
        {
            let name = format!("CPU per call, {kind}");
            bars.bar(&name, &format!("{ratio:.2} × the floor"), &format!("{most} ×"), ratio <= most, disturbed);
        }
        let memory = rounds.median(|figures| Some(figures.memory / MEGABYTE));
        bars.most(&format!("memory per call, {kind}"), memory.map(in_mb), MEMORY_MAX_MB, "0.5 MB", disturbed);
        let mut within = |what: &str, figure: Option<f64>, most: f64| {
            let figure = figure.map(|ms| (ms, format!("{ms:.1} ms")));
            bars.most(&format!("{what}, {kind}"), figure, most, &format!("{most} ms"), disturbed);
        };
        if rounds.kind.provider().is_vendor() {
            within("caller → provider, p99", rounds.percentile(|samples| &samples.up, 99.0), UP_MAX_MS);
            within("provider → caller, p99", rounds.percentile(|samples| &samples.down, 99.0), DOWN_MAX_MS);
            let stopped = rounds.percentile(|samples| &samples.barge_in, 99.0);
            within("speech started → last agent frame, p99", stopped, STOP_MAX_MS);
        }
        if rounds.kind == Kind::Pipeline {
            let share = rounds.percentile(|samples| &samples.share, 95.0);
            within("engine's share of a turn, p95", share, SHARE_MAX_MS);
            let tokens = rounds.most(|samples| &samples.clause_tokens).map(|tokens| (tokens, tokens.to_string()));
            let name = format!("tokens written after a clause when the voice is asked, {kind}");
            bars.most(&name, tokens, TOKENS_MAX, &TOKENS_MAX.to_string(), disturbed);
        }
    }
}

fn in_mb(memory: f64) -> (f64, String) {
    (memory, format!("{memory:.3} MB"))
}

/// The bars of one run: how many of them were missed decides how the program ends.
#[derive(Debug, Default)]
pub struct Bars {
    missed: usize,
}

impl Bars {
    /// One line about a figure that has a bar. `disturbed`: the figures it stands on are not usable.
    pub fn bar(&mut self, name: &str, value: &str, bar: &str, reached: bool, disturbed: bool) {
        let verdict = match (reached, disturbed) {
            (true, false) => "reached",
            (true, true) => "reached, although disturbed",
            (false, false) => "NOT REACHED",
            (false, true) => "NOT REACHED, but disturbed: measure again",
        };
        self.missed += usize::from(!reached);
        println!("bar: {name}: {value}, at most {bar}: {verdict}");
    }

    /// Counts missed bars of a table that prints its own verdicts.
    pub fn missed(&mut self, bars: usize) {
        self.missed += bars;
    }

    /// The same of a figure, with its words, which has to be there: one of which there are no samples misses its bar.
    fn most<T: PartialOrd>(&mut self, name: &str, figure: Option<(T, String)>, most: T, bar: &str, disturbed: bool) {
        let reached = figure.as_ref().is_some_and(|(figure, _)| *figure <= most);
        let value = figure.map_or("NOT MEASURED".into(), |(_, words)| words);
        self.bar(name, &value, bar, reached, disturbed);
    }

    /// Success, or failure where a bar was missed, disturbed or not.
    pub fn verdict(&self) -> ExitCode {
        if self.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_which_nothing_was_measured_misses_the_bars_that_it_has() {
        for (kind, missed) in [(Kind::Pipeline, 3), (Kind::OpenAi, 4), (Kind::Scripted, 1)] {
            let mut bars = Bars::default();
            hold(&[Rounds { kind, rounds: Vec::new() }], 100, true, &mut bars);
            assert_eq!(bars.missed, missed, "{}", kind.name());
        }
    }

    #[test]
    fn what_passes_through_unchanged_has_the_bar_of_it_at_200_calls() {
        let bars = [100, 200, 300].map(|calls| [Kind::Scripted, Kind::Deepgram].map(|kind| kind.cpu_max(calls)));
        assert_eq!(bars, [[Some(2.5), Some(3.0)], [Some(2.5), Some(2.5)], [Some(2.5), Some(2.5)]]);
    }
}
