#!/usr/bin/env python3
"""Runs every test: builds the test programs once with `cargo test --no-run`, then runs them in the order of `PLAN`.

    run_tests.py [--quick] [ARGUMENT OF CARGO TEST…] [-- FILTER…]

`--quick` leaves out what runs in real time, the documentation, and of the calls in virtual time what others stand for. A FILTER
is a part of a test's name; without one all tests run. REAL=all in the environment also runs the tests that are marked as
ignored: every scene on the real Asterisk.

The output of each program is kept whole in `target/tests`, the seconds of each test in `seconds.txt` there, and what a
program says of failures is shown. At the end stand the seconds of each program, the slowest tests and, alone on the last
line, `N passed, N failed`. A failing test is a failing run: nothing is run again.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
SLOWEST = 20

RESULT = re.compile(r"test (?P<name>\S+)(?: - .*)? \.\.\. (?P<how>ok|FAILED|ignored)")
# With one thread a test's name is written when it begins, and its result after whatever it printed.
TOTAL = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed;")


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a test program, or of a part of its tests."""

    # `TARGET` of the package offhook, or `PACKAGE/TARGET`; `*` is every program that no other line names.
    program: str
    threads: int = CORES
    # Parts of names: the tests that run, and those that do not.
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    # Seconds after which the run has failed. On two cores no run takes more than two thirds of them.
    limit: int = 600
    # Its tests write small files by the thousand.
    in_memory: bool = False
    # REAL=all runs the ignored tests of these programs too, within `ALL_LIMIT`.
    real: bool = False
    # What the run is called where its parts of names are too long to read.
    title: str = ""
    # What its tests show does not depend on how fast they run: they take what the runs in real time leave of the processor.
    beside: bool = False
    # Begins when everything else has ended.
    alone: bool = False
    # Begins together with the next one.
    with_next: bool = False


# Tests of the program `real` that run with no others beside them: an examination tells of every delay, as Prometheus does; the page
# is held against a demo in which a recognizer has to understand each sentence at the first attempt. They wait most of the time.
ALONE = ("prometheus::load", "web::beside_asterisk", "web::newcomer")

# Scenes on the real Asterisk, with real programs, and those that look at the clock: what every run shows of them is to take five
# minutes. A change that makes them longer adds too much to the chosen set: leave it to REAL=all, or let more scenes share a call.
REAL_TIME = ("::real::", "::only_real::", "stages::programs", "clock::")
# One scene takes as long as all others: it begins with the first of them, not in the order of names.
LONGEST = "legs::real::what_is_seen_of_each_leg"
EACH_LEG = Run("whole_calls", threads=1, only=(LONGEST,), real=True, limit=300, with_next=True, title="each leg in real time")
SCENES = Run("whole_calls", threads=3 * CORES - 1, only=REAL_TIME, skip=(LONGEST,), real=True, limit=300, title="scenes in real time")
# Seconds for all of them beside a load on every core.
ALL_LIMIT = 3600
# What the engines of these scenes asked Asterisk for and were told by it; tests/kit/seen.rs writes it.
SEEN = "seen.txt"
# What they do not have: `offhook check` asks for information, and it has no metrics; a real phone that holds may crash before it takes
# the call up again, which the emulated one shows.
UNCOUNTED = ('offhook_ari_requests_total{operation="info"}', 'offhook_ari_events_total{event="ChannelUnhold"}')

# Tests of the program `house` that wait for other programs within a limit, which those do not keep in idle time.
LIMITED = ("what_the_compose_file_starts_carries_a_call", "mcp_python_client::")

# What computes has as many threads as there are cores; what also waits for time, a browser or another program has more. Two runs are
# under way at a time: one in real time, which waits for most of it, and one that computes and makes way for it.
PLAN = [
    # The limit allows for a load on every core, beside which it begins to compute when nothing runs in real time.
    Run("whole_calls", threads=2 * CORES, skip=REAL_TIME, limit=1200, in_memory=True, beside=True, title="calls in virtual time"),
    Run("house", skip=LIMITED, beside=True),
    Run("*", beside=True),
    Run("lib", threads=3 * CORES),
    Run("house", threads=3 * CORES, only=LIMITED),
    EACH_LEG,
    SCENES,
    Run("real", threads=3 * CORES, skip=ALONE, limit=900, title="real"),
    Run("real", threads=2 * CORES, only=ALONE, alone=True),
]
# Starts what runs in real time: preferred to whatever else this machine does, where that is allowed.
FIRST = ("nice", "-n", "-10")
# Starts what computes: in idle time while anything runs in real time. A lower priority alone still made others send their audio too late.
IDLE = ("chrt", "--idle", "0")


class Priorities:
    """Scheduling of the test programs. Those that run in idle time get the normal policy as soon as nothing runs in real time: beside
    another program that takes all the processor they would not end."""

    def __init__(self) -> None:
        tried = subprocess.run([*FIRST, "true"], capture_output=True)
        self.first = () if tried.stderr else FIRST
        self.sessions: list[int] | None = []
        self.lock = threading.Lock()

    def start(self, beside: bool, command: list[str], **how) -> subprocess.Popen:
        with self.lock:
            idle = beside and self.sessions is not None
            child = subprocess.Popen([*(IDLE if idle else () if beside else self.first), *command], start_new_session=True, **how)
            if idle:
                self.sessions.append(child.pid)
        return child

    def no_real_time_left(self) -> None:
        with self.lock:
            sessions, self.sessions = self.sessions, None
        for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
            try:
                if os.getsid(int(task.parts[2])) in sessions:
                    os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
            except (ProcessLookupError, FileNotFoundError):
                pass


PRIORITIES = Priorities()
# Rows of `--quick`: whatever runs without Asterisk, a browser and other people's programs, and which of their tests it leaves out:
# one vendor's column of the table stands for all, the core has tests of its own for turns, and other scenes use each leg.
QUICK = {
    "*": (),
    "lib": (),
    "whole_calls": ("table::deepgram", "table::elevenlabs", "table::gemini", "table::pipeline", "turn_taking::",
                    "what_is_seen_of_each_leg"),
}


@dataclasses.dataclass
class Program:
    name: str
    path: str
    folder: str


@dataclasses.dataclass
class Outcome:
    name: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    # Of the processor, where it is known.
    computed: float | None = None
    # Seconds of each test.
    tests: dict[str, float] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)


def cargo(*arguments: str) -> list[str]:
    return [os.environ.get("CARGO", "cargo"), *arguments]


def build(arguments: list[str]) -> list[Program]:
    """Builds all test programs; ends the run where that fails."""
    command = cargo("test", "--no-run", "--message-format=json-render-diagnostics", *arguments)
    # clippy-driver is the compiler with the lints, so what it builds needs no second look. Each lint is an error.
    os.environ |= {"RUSTC_WORKSPACE_WRAPPER": "clippy-driver", "CLIPPY_ARGS": "-Dwarnings"}
    programs = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        for line in child.stdout:
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("reason") != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
                continue
            target, manifest = message["target"], Path(message["manifest_path"])
            kind = target["kind"][0]
            name = {"lib": "lib", "bin": f"bin {target['name']}"}.get(kind, target["name"])
            package = "" if manifest.parent == ROOT else f"{manifest.parent.name}/"
            programs.append(Program(package + name, message["executable"], str(manifest.parent)))
    if child.returncode != 0:
        sys.exit(child.returncode)
    return sorted(programs, key=lambda program: program.name)


def environment(run: Run, program: Program) -> dict[str, str]:
    """As `cargo test` runs a program. Each client of HTTPS reads all the root certificates that it trusts, a quarter of the time of a case
    of the providers' table: here there is one to read, since no test calls anybody on the Internet."""
    found = os.environ | {"CARGO_MANIFEST_DIR": program.folder, "CARGO": os.environ.get("CARGO", "cargo")}
    # Snapshots are this clone's, whichever clone the program was compiled in.
    found["INSTA_WORKSPACE_ROOT"] = str(ROOT)
    if (root := one_root()) is not None:
        found["SSL_CERT_FILE"] = str(root)
        found.pop("SSL_CERT_DIR", None)
    if run.real:
        found["OFFHOOK_SEEN"] = str(folder_of_results() / SEEN)
    if run.in_memory and (memory := memory_folder()) is not None:
        found["TMPDIR"] = memory
    return found


def memory_folder() -> str | None:
    """Where files of tests are kept in memory, if this machine has room for such: they live as long as their test."""
    folder = "/dev/shm"
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and room.f_bavail * room.f_frsize > 4 << 30 else None


@functools.cache
def one_root() -> Path | None:
    """The first certificate of the system's, in a file of its own; None where Debian keeps none."""
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    if not system.exists():
        return None
    end = "-----END CERTIFICATE-----\n"
    first, _, _ = system.read_text().partition(end)
    root = folder_of_results() / "one_root.pem"
    root.write_text(first + end)
    return root


def folder_of_results() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tests"


def names_of(run: Run, program: Program) -> list[str]:
    """The tests of a program in the order in which it begins them."""
    listed = subprocess.run([program.path, "--list", "--format", "terse"], capture_output=True, text=True, check=True,
                            cwd=program.folder, env=environment(run, program)).stdout
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


class Stopwatch:
    """How long each test took, from the moments at which results arrive. A test program begins its tests in the order of its
    list: as many as it has threads at first, then the next one whenever one has ended."""

    def __init__(self, names: list[str], threads: int, now: float):
        self.waiting = names[threads:]
        self.began = dict.fromkeys(names[:threads], now)
        self.took: dict[str, float] = {}

    def ended(self, name: str, now: float) -> None:
        began = self.began.pop(name, None)
        if began is not None:
            self.took[name] = now - began
        if self.waiting:
            self.began[self.waiting.pop(0)] = now


def run_program(run: Run, program: Program, names: list[str], everything: bool, kept: Path) -> Outcome:
    title = run.title or program.name + "".join(f" {part}" for part in run.only) + (f" without {', '.join(run.skip)}" if run.skip else "")
    most = ALL_LIMIT if everything and run.real else run.limit
    outcome = Outcome(title)
    flags = ["--test-threads", str(run.threads), "--exact"]
    flags += ["--include-ignored"] if everything and run.real else []
    print(f"=== {title}: {len(names)} tests, {run.threads} at once", flush=True)
    began = time.monotonic()
    watch = Stopwatch(names, run.threads, began)
    total, reached_limit = None, threading.Event()
    child = PRIORITIES.start(run.beside, [program.path, *flags, *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace", cwd=program.folder, env=environment(run, program))

    def stop() -> None:
        reached_limit.set()
        os.killpg(child.pid, signal.SIGKILL)

    limit = threading.Timer(most, stop)
    limit.start()
    name = re.sub(r"[^\w-]+", "_", title)[:80]
    lines, counts = [], {"ok": 0, "FAILED": 0, "ignored": 0}

    def read() -> None:
        nonlocal total
        with open(kept / f"{name}.txt", "w") as file:
            for line in child.stdout:
                file.write(line)
                lines.append(line)
                if found := RESULT.search(line):
                    watch.ended(found["name"], time.monotonic())
                    counts[found["how"]] += 1
                    if found["how"] == "FAILED":
                        outcome.failures.append(found["name"])
                        print(f"    FAILED {title}: {found['name']}", flush=True)
                elif found := TOTAL.match(line):
                    total = found

    # By a thread: a process that outlives the program may hold its output open.
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    limit.cancel()
    reader.join(timeout=5)
    outcome.seconds, outcome.tests = time.monotonic() - began, watch.took
    outcome.computed = usage.ru_utime + usage.ru_stime
    if total:
        outcome.passed, outcome.failed = int(total["passed"]), int(total["failed"])
    if child.returncode != 0 and not outcome.failed:
        # It ended, or was ended, in the middle of its tests.
        outcome.passed, outcome.failed = counts["ok"], counts["FAILED"] + 1
        why = f"took more than its {most} s" if reached_limit.is_set() else f"ended by {child.returncode}"
        running = ", ".join(sorted(watch.began)) or "none"
        outcome.failures.append(f"the program {why}; tests that were running: {running}")
    if outcome.failed:
        shown = "".join(line for line in lines if not (RESULT.search(line) and line.rstrip().endswith(" ok")))
        print(f"\n--- what {title} said\n{shown}--- end of what {title} said\n", flush=True)
    print(f"    {outcome.seconds:6.1f} s  {title}: {outcome.passed} passed, {outcome.failed} failed", flush=True)
    return outcome


def run_documentation(arguments: list[str], filters: list[str], kept: Path) -> Outcome:
    """The documentation: rustdoc writes its pages, then compiles and runs their examples. `cargo doc` would have all dependencies checked
    once more, which takes longer than everything here."""
    print("=== documentation", flush=True)
    began = time.monotonic()
    command = cargo("test", "--doc", *arguments, *(["--", *filters] if filters else []))
    child = PRIORITIES.start(True, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
                             env=os.environ | {"RUSTDOC": str(ROOT / "tests/lab/rustdoc.sh")})
    said, _ = child.communicate()
    (kept / "documentation.txt").write_text(said)
    outcome = Outcome("documentation", seconds=time.monotonic() - began)
    for found in TOTAL.finditer(said):
        outcome.passed += int(found["passed"])
        outcome.failed += int(found["failed"])
    if child.returncode != 0:
        outcome.failed = max(outcome.failed, 1)
        outcome.failures.append("see above")
        print(said)
    print(f"    {outcome.seconds:6.1f} s  documentation: {outcome.passed} passed, {outcome.failed} failed", flush=True)
    return outcome


def unseen(file: Path) -> list[str]:
    """Requests and events of ARI and contexts of the dialplan that no scene in real time had, by the counters of all engines and the logs
    of all Asterisks."""
    seen: dict[str, float] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        counter, _, value = line.rpartition(" ")
        seen[counter] = seen.get(counter, 0) + float(value)
    return sorted(counter for counter, value in seen.items() if value == 0 and counter not in UNCOUNTED) if seen else ["any counter"]


def chosen(run: Run, program: Program, filters: list[str]) -> list[str]:
    def is_meant(name: str) -> bool:
        return (
            (not run.only or any(part in name for part in run.only))
            and not any(part in name for part in run.skip)
            and (not filters or any(part in name for part in filters))
        )

    return [name for name in names_of(run, program) if is_meant(name)]


def planned(programs: list[Program], quick: bool) -> list[tuple[Run, Program]]:
    """The plan with its programs. Those that no line names stand where it has its `*`."""
    named = {run.program for run in PLAN}
    found = []
    for run in PLAN:
        if quick:
            run = dataclasses.replace(run, skip=run.skip + QUICK.get(run.program, ()))
        if not quick or (run.program in QUICK and not run.real):
            meant = (one for one in programs if one.name == run.program or (run.program == "*" and one.name not in named))
            # `--lib` has the core's own tests built twice: they are those of its program `units`.
            meant = (one for one in meant if not (quick and one.name.endswith("/lib")))
            found += [(run, program) for program in meant]
    return found


def main() -> int:
    arguments = sys.argv[1:]
    if "--help" in arguments:
        print(__doc__)
        return 0
    filters = arguments[arguments.index("--") + 1:] if "--" in arguments else []
    arguments = arguments[: arguments.index("--")] if "--" in arguments else arguments
    quick = "--quick" in arguments
    arguments = [argument for argument in arguments if argument != "--quick"]
    everything = os.environ.get("REAL") == "all"
    kept = folder_of_results()
    kept.mkdir(parents=True, exist_ok=True)

    began = time.monotonic()
    targets = ["--lib", "--test", "units", "--test", "stories", "--test", "whole_calls"] if quick else []
    programs = build(arguments + targets)
    outcomes = [Outcome("building", seconds=time.monotonic() - began)]
    print(f"    {outcomes[0].seconds:6.1f} s  building", flush=True)
    (kept / SEEN).unlink(missing_ok=True)
    rows = [(run, program, names) for run, program in planned(programs, quick) if (names := chosen(run, program, filters))]

    def take(row: tuple[Run, Program, list[str]]) -> Outcome:
        return run_program(*row, everything, kept)

    with ThreadPoolExecutor(1) as pool:
        # It has one thread, so it comes before those that use every core in the end.
        begun = [] if quick else [pool.submit(run_documentation, arguments, filters, kept)]
        begun += [pool.submit(take, row) for row in rows if row[0].beside]
        in_real_time: list[Outcome] = []
        together: list[tuple[Run, Program, list[str]]] = []
        for row in [row for row in rows if not row[0].beside and not row[0].alone]:
            together.append(row)
            if not row[0].with_next:
                with ThreadPoolExecutor(len(together)) as lane:
                    in_real_time += lane.map(take, together)
                together = []
        in_real_time += map(take, together)
        PRIORITIES.no_real_time_left()
        outcomes += [one.result() for one in begun] + in_real_time
    outcomes += [take(row) for row in rows if row[0].alone]
    if not quick and not filters and (missing := unseen(kept / SEEN)):
        failures = [f"no scene on the real Asterisk has {counter}" for counter in missing]
        outcomes.append(Outcome("what the scenes in real time cover", failed=len(missing), failures=failures))

    print("\nSeconds by program, and how many of them each core computed:")
    for outcome in outcomes:
        computed = "" if outcome.computed is None else f"{outcome.computed / CORES:.1f}"
        print(f"  {outcome.seconds:7.1f} {computed:>7}  {outcome.name}")
    print(f"  {time.monotonic() - began:7.1f}  all")
    print(f"\nThe {SLOWEST} slowest tests:")
    tests = [(seconds, f"{outcome.name}: {name}") for outcome in outcomes for name, seconds in outcome.tests.items()]
    slowest = [f"{seconds:7.2f}  {name}" for seconds, name in sorted(tests, reverse=True)]
    print(*(f"  {line}" for line in slowest[:SLOWEST]), sep="\n")
    (kept / "seconds.txt").write_text("".join(f"{line}\n" for line in slowest))
    failures = [f"{outcome.name}: {name}" for outcome in outcomes for name in outcome.failures]
    if failures:
        print("\nFailed:", *failures, sep="\n  ")
    passed, failed = (sum(getattr(outcome, how) for outcome in outcomes) for how in ("passed", "failed"))
    print(f"\n{passed} passed, {failed} failed")
    # A run that ran nothing shows nothing.
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
