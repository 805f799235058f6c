//! Memory, processor time, open files and age of this process, read from `/proc/self` at each scrape.
//!
//! The names are those that every Prometheus client uses, so that common dashboards find them.
//! Elsewhere than on Linux the values stay zero.

use super::definition::Definition;
use prometheus::{Gauge, Registry, core::Collector, core::Desc, proto::MetricFamily};
use std::{fs, time::Duration};

const RESIDENT: Definition = Definition::new("process_resident_memory_bytes", "Memory in RAM, in bytes.");
const CPU: Definition =
    Definition::new("process_cpu_seconds_total", "Processor time used, user and system, in seconds.");
const OPEN_FDS: Definition = Definition::new("process_open_fds", "Open file descriptors: files, sockets, pipes.");
const MAX_FDS: Definition =
    Definition::new("process_max_fds", "File descriptors that may be open at once, by the operating system.");
const STARTED: Definition =
    Definition::new("process_start_time_seconds", "When the process started, in seconds since 1970.");

/// `/proc/self/stat` counts in hundredths of a second on every architecture: `USER_HZ` is part of
/// the kernel's interface to programs (`man 7 time`).
const TICK: Duration = Duration::from_millis(10);

pub(super) fn register(registry: &Registry) {
    let process = Process {
        resident: gauge(RESIDENT),
        cpu: prometheus::Counter::new(CPU.name, CPU.help).expect("the name is a constant"),
        open_fds: gauge(OPEN_FDS),
        max_fds: gauge(MAX_FDS),
        started: gauge(STARTED),
        reading: std::sync::Mutex::new(()),
    };
    registry.register(Box::new(process)).expect("registered once per registry");
}

fn gauge(definition: Definition) -> Gauge {
    Gauge::new(definition.name, definition.help).expect("the name is a constant")
}

struct Process {
    resident: Gauge,
    cpu: prometheus::Counter,
    open_fds: Gauge,
    max_fds: Gauge,
    started: Gauge,
    /// A counter can only be moved by a difference, so two scrapes must not read at once.
    reading: std::sync::Mutex<()>,
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.resident, &self.open_fds, &self.max_fds, &self.started];
        gauges.into_iter().flat_map(|gauge| gauge.desc()).chain(self.cpu.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _one_at_a_time = self.reading.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().and_then(|status| resident_bytes(&status)) {
            self.resident.set(bytes as f64);
        }
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(used) = cpu_time(&stat) {
            self.cpu.inc_by((used.as_secs_f64() - self.cpu.get()).max(0.0));
        }
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        if let (Some(after_boot), Some(boot)) = (started(&stat), boot_time(&machine)) {
            self.started.set(boot as f64 + after_boot.as_secs_f64());
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The descriptor that reads the directory is one of the entries.
            self.open_fds.set(entries.count().saturating_sub(1) as f64);
        }
        if let Some(limit) = fs::read_to_string("/proc/self/limits").ok().and_then(|limits| max_fds(&limits)) {
            self.max_fds.set(limit as f64);
        }
        let gauges = [&self.resident, &self.open_fds, &self.max_fds, &self.started];
        gauges.into_iter().flat_map(|gauge| gauge.collect()).chain(self.cpu.collect()).collect()
    }
}

/// `VmRSS:     1234 kB` of `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Fields 14 and 15 of `/proc/self/stat` (`man 5 proc_pid_stat`).
fn cpu_time(stat: &str) -> Option<Duration> {
    let mut fields = from_field(14, stat)?;
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user + TICK * system)
}

/// Field 22 of `/proc/self/stat`: after the machine's start.
fn started(stat: &str) -> Option<Duration> {
    let ticks: u64 = from_field(22, stat)?.next()?.parse().ok()?;
    Some(Duration::from_millis(ticks.checked_mul(10)?))
}

/// The second field is the name in parentheses and may hold spaces, so the count starts behind the last one.
fn from_field(number: usize, stat: &str) -> Option<impl Iterator<Item = &str>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().skip(number - 3))
}

/// `btime 1234567890` of `/proc/stat`, in seconds since 1970.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The first number, which is in force, of `Max open files    1024    4096    files` of `/proc/self/limits`.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nVmData:\t 1 kB\n"), Some(2 * 1024 * 1024));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }

    #[test]
    fn processor_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 12345 0 0";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(started(stat), Some(Duration::from_millis(123_450)));
        assert_eq!(cpu_time("7 (x) S 1"), None);
        assert_eq!(started("7 (x) S 1"), None);
    }

    #[test]
    fn the_limit_of_open_files_is_the_one_in_force() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(max_fds(limits), Some(1024));
        assert_eq!(max_fds("Max open files  unlimited  unlimited  files"), None);
    }

    #[test]
    fn a_scrape_shows_this_very_process() {
        let registry = Registry::new();
        register(&registry);
        let gauge = |definition: Definition| {
            let families = registry.gather();
            let family = families.iter().find(|family| family.name() == definition.name).unwrap();
            family.get_metric()[0].get_gauge().get_value()
        };
        assert!(gauge(RESIDENT) > 1_000_000.0);
        assert!(gauge(OPEN_FDS) >= 3.0);
        assert!(gauge(MAX_FDS) >= gauge(OPEN_FDS));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - gauge(STARTED);
        assert!((-2.0..3600.0).contains(&age), "this process is {age} s old");
    }
}
