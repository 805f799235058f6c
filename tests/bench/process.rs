//! Processes under test: which core they run on, and what the kernel says they used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::{Child, Command};

/// `/proc` counts processor time in hundredths of a second: `USER_HZ`, `man 7 time`.
const TICK: Duration = Duration::from_millis(10);

/// The program that is measured.
pub const ENGINE: &str = "offhook";
/// Makes every program of the project, where this one was made.
const BUILD: &str = if cfg!(debug_assertions) { "cargo build" } else { "cargo build --release" };

/// Which core each process runs on.
#[derive(Debug, Clone, Copy)]
pub struct Cores {
    /// The system under test, alone on its core.
    pub system: usize,
    /// The load, and everything else of the bench.
    pub load: usize,
}

impl Cores {
    /// Chooses two cores and puts this process on the second one. Call it before any thread is
    /// started: threads inherit the choice.
    ///
    /// # Errors
    ///
    /// Says why there is no such choice; then everything shares all cores.
    pub fn claim() -> Result<Self, String> {
        let status = fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        let cores = parse_list(allowed);
        let [system, load, ..] = cores[..] else {
            return Err(format!("this process may use one core only ({cores:?})"));
        };
        let pid = std::process::id().to_string();
        let pinned = std::process::Command::new("taskset")
            .args(["-p", "-c", &load.to_string(), &pid])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match pinned {
            Ok(status) if status.success() => Ok(Self { system, load }),
            Ok(status) => Err(format!("taskset failed: {status}")),
            Err(error) => Err(format!("cannot run taskset ({error}); it is in Debian's util-linux")),
        }
    }
}

/// `0-3,8` as the kernel writes it.
fn parse_list(list: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last);
        }
    }
    cores
}

/// A program of the project in the folder of this one, and so of the same build.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(program.is_file(), "there is no {} (`{BUILD}` makes it)", program.display());
    Ok(program)
}

/// A program with these arguments, on the core of the system under test. It is killed when the
/// answer is dropped. What it logs goes to `log`.
pub fn spawn(cores: Option<Cores>, program: &Path, arguments: &[&str], log: &Path) -> std::io::Result<Child> {
    let mut command = match cores {
        // It becomes the program, so the process id is the program's own.
        Some(cores) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cores.system.to_string()]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let log = fs::File::options().create(true).append(true).open(log)?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true).spawn()
}

/// Processor time of a process so far, user and system (`man 5 proc_pid_stat`, fields 14 and 15).
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces; field 3 is the first behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(TICK * (user + system))
}

/// Memory of a process in RAM, in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// How long a core has worked so far, for whomever: the time since the machine started less the core's idle time (`man 5
/// proc_stat`). The kernel measures that one, and guesses what it tells of work by looking once in each of its ticks: whoever
/// works at even times is seen always or never.
pub fn busy_time(core: usize) -> Option<Duration> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let name = format!("cpu{core} ");
    let fields: Vec<u32> =
        stat.lines().find_map(|line| line.strip_prefix(&name))?.split_whitespace().flat_map(str::parse).collect();
    let [_user, _nice, _system, idle, waiting, ..] = fields[..] else { return None };
    let uptime = Duration::try_from_secs_f64(uptime.split_whitespace().next()?.parse().ok()?).ok()?;
    Some(uptime.saturating_sub(TICK * (idle + waiting)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("\t0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_list("5"), [5]);
    }

    #[test]
    fn a_process_can_be_watched() {
        let pid = std::process::id();
        assert!(cpu_time(pid).is_some() && busy_time(0).is_some());
        assert!(resident(pid).unwrap() > 1 << 20);
    }
}
