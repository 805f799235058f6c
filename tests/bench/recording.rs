//! What it costs to record calls, beside the same calls that are not recorded.

use super::{
    process::Cores,
    report::Bars,
    run::{self, Figures, Plan},
    samples::median,
    say,
    system::{Extra, Folder, Kind, end_of},
};
use clap::Args;
use std::{fs, path::Path, time::Duration};

#[derive(Args)]
pub struct RecordingArguments {
    /// Calls at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    calls: u16,
    /// How long each round measures, once all calls are up.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3_600))]
    seconds: u64,
    /// How often calls that are recorded and calls that are not take turns.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
}

/// Of the CPU of a call that is not recorded.
const SHARE_MAX: f64 = 0.3;
/// The vendor whose calls cost least: of no other call is recording a larger part.
const KIND: Kind = Kind::Deepgram;
/// Records are kept of both, so that nothing differs but the recording.
const PLAIN: Extra = Extra { context: "", turns: None, more: "records: { directory: records }\n" };
const RECORDED: Extra = Extra { context: ", recording: true", ..PLAIN };

pub async fn bench(arguments: &RecordingArguments, cores: Option<Cores>) -> anyhow::Result<Bars> {
    let folder = Folder::create()?;
    let mut all: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
    for round in 1..=arguments.rounds {
        for (figures, (extra, name)) in all.iter_mut().zip([(PLAIN, "plain"), (RECORDED, "recorded")]) {
            let window = Duration::from_secs(arguments.seconds);
            let plan = Plan { calls: arguments.calls.into(), window, cores, extra };
            let (rounds, calls, seconds) = (arguments.rounds, plan.calls, arguments.seconds);
            say(&format!("round {round} of {rounds}, {name:10}: {calls} calls, {seconds} s "));
            let measured = run::measure(KIND, &plan, folder.path(), || say(".")).await;
            let log = || end_of(&folder.path().join("engine.log"));
            figures.push(measured.map_err(|error| error.context(format!("the end of the engine's log:\n{}", log())))?);
            say(" done\n");
        }
    }
    let made = recordings(&folder.path().join("records").join("recordings"));
    let expected = usize::from(arguments.calls) * usize::from(arguments.rounds);
    anyhow::ensure!(made.0 == expected, "{} recordings of {expected} calls", made.0);
    let [plain, recorded] = &all;
    let cpu = |figures: &[Figures]| median(figures.iter().map(|figures| figures.cpu)).unwrap_or(f64::INFINITY);
    let missed = |figures: &[Figures]| figures.iter().map(|figures| figures.samples.missed).sum::<u64>();
    println!(
        "\n{} calls with {}, {} rounds of {} s each\n",
        arguments.calls,
        KIND.name(),
        arguments.rounds,
        arguments.seconds
    );
    println!("                                        plain   recorded");
    println!("CPU per call, % of a core          {:10.3} {:10.3}", cpu(plain), cpu(recorded));
    println!("20 ms slots missed at the callers  {:10} {:10}", missed(plain), missed(recorded));
    println!("\n{} recordings, {} MB\n", made.0, made.1 >> 20);
    let doubts: Vec<String> = all.iter().flatten().flat_map(Figures::doubts).collect();
    doubts.iter().for_each(|doubt| println!("NOT USABLE  {doubt}"));
    let share = cpu(recorded) / cpu(plain) - 1.0;
    let mut bars = Bars::default();
    let (value, most) = (format!("{share:.2} of a call's"), format!("{SHARE_MAX}"));
    bars.bar("CPU of recording", &value, &most, share <= SHARE_MAX, cores.is_none() || !doubts.is_empty());
    Ok(bars)
}

/// How many there are, and their bytes.
fn recordings(folder: &Path) -> (usize, u64) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let lengths: Vec<u64> = files.filter_map(|file| Some(file.metadata().ok()?.len())).collect();
    (lengths.len(), lengths.iter().sum())
}
