#!/usr/bin/env python3
"""Repeats the tests, to show that their outcome does not depend on chance or on a load.

    repeat.py runs [TIMES]     the whole of `make test`, every second time beside a load on every core: seconds and outcome of each
    repeat.py heard [TIMES]    calls of all providers in virtual time beside a load: what their callers hear, sample by sample,
                               is the same each time
    repeat.py order [TIMES]    the tests of the library and the calls in virtual time in another order each time: one at a time, as
                               many as there are cores, and a hundred at once
    repeat.py edit             seconds from an edit of one line in src/core/call until the tests of the core have run

TIMES is 20 for `runs`, 10 for `heard` and 3 for `order`. The exit status is 1 where a run fails or a caller hears something else. The output of
each run is kept in `target/tests/repeat`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import run_tests

KEPT = run_tests.folder_of_results() / "repeat"
# Names of the tests whose callers note what they hear, and of those among them that run programs in real time.
HEARD, NOT_HEARD = "providers::", "stages::programs"


@contextlib.contextmanager
def load(wanted: bool):
    """A program on every core that computes all the time, as long as this one is there."""
    computes = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"
    burners = [subprocess.Popen([sys.executable, "-c", computes]) for _ in range(run_tests.CORES if wanted else 0)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def runs(times: int) -> bool:
    passed = 0
    for number in range(1, times + 1):
        beside = number % 2 == 0
        log = KEPT / f"run_{number}.txt"
        began = time.monotonic()
        with load(beside), open(log, "w") as out:
            status = subprocess.run(["make", "test"], cwd=run_tests.ROOT, stdout=out, stderr=subprocess.STDOUT).returncode
        passed += status == 0
        last = log.read_text().rstrip().splitlines()[-1:] or ["nothing was said"]
        print(f"run {number:2}  {'beside a load' if beside else 'alone':13}  {time.monotonic() - began:6.0f} s  {last[0]}", flush=True)
    print(f"{passed} of {times} runs passed")
    return passed == times


def heard(times: int) -> bool:
    program = next(one for one in run_tests.build(["--locked", "--test", "whole_calls"]) if one.name == "whole_calls")
    run = next(run for run in run_tests.PLAN if run.in_memory)
    first: list[str] = []
    same = True
    for number in range(1, times + 1):
        notes = KEPT / f"heard_{number}.txt"
        notes.unlink(missing_ok=True)
        environment = run_tests.environment(run, program) | {"OFFHOOK_HEARD": str(notes)}
        command = [program.path, "--test-threads", str(run.threads), HEARD, "--skip", NOT_HEARD]
        began = time.monotonic()
        with load(True), open(KEPT / f"heard_{number}.log", "w") as out:
            status = subprocess.run(command, cwd=program.folder, env=environment, stdout=out, stderr=subprocess.STDOUT).returncode
        lines = sorted(notes.read_text().splitlines()) if notes.exists() else []
        first = first or lines
        other = sorted(set(lines) ^ set(first))
        same &= status == 0 and not other and bool(lines)
        told = "all tests passed" if status == 0 else "A TEST FAILED"
        print(f"run {number:2}  {time.monotonic() - began:6.0f} s  {told}, {len(lines)} scenes, {len(other)} differences", flush=True)
        for line in other:
            print(f"    {line[:160]}")
    return same


def order(times: int) -> bool:
    programs = {one.name: one for one in run_tests.build(["--locked", "--lib", "--test", "whole_calls"])}
    rows = [(run, programs[run.program]) for run in run_tests.PLAN if run.program in ("lib", "whole_calls") and not run.real]
    same = True
    for number in range(1, times + 1):
        threads = (1, run_tests.CORES, 100)[number % 3]
        # An order of its own is a part of the test programs that is not stable; this lets them take it.
        order = ["-Z", "unstable-options", "--shuffle-seed", str(number)]
        for run, program in rows:
            log = KEPT / f"order_{number}_{program.name}.txt"
            command = [program.path, "--test-threads", str(threads), *order, *(word for skip in run.skip for word in ("--skip", skip))]
            environment = run_tests.environment(run, program) | {"RUSTC_BOOTSTRAP": "1"}
            began = time.monotonic()
            with open(log, "w") as out:
                status = subprocess.run(command, cwd=program.folder, env=environment, stdout=out, stderr=subprocess.STDOUT).returncode
            same &= status == 0
            total = next((line for line in log.read_text().splitlines() if line.startswith("test result:")), "it ended early")
            print(f"order {number:2}  {threads:3} at once  {time.monotonic() - began:6.0f} s  {program.name}: {total}", flush=True)
    return same


def edit(_: int) -> bool:
    """Edits a number that no test reads, in a file of the core, and takes the edit back."""
    file = run_tests.ROOT / "src/core/call/machine.rs"
    command = run_tests.cargo("test", "-p", "offhook-core", "--locked", "--test", "units", "--test", "stories", "--quiet")
    before = file.read_text()
    subprocess.run([*command, "--no-run"], cwd=run_tests.ROOT, check=True)
    try:
        file.write_text(before + f"\nconst _: u64 = {time.time_ns()};\n")
        began = time.monotonic()
        status = subprocess.run(command, cwd=run_tests.ROOT, stdout=subprocess.DEVNULL).returncode
        print(f"{time.monotonic() - began:.1f} s from the edit until the tests of the core have run")
    finally:
        file.write_text(before)
    return status == 0


def main() -> int:
    commands = {"runs": (runs, 20), "heard": (heard, 10), "order": (order, 3), "edit": (edit, 1)}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in commands:
        print(__doc__)
        return 2
    command, times = commands[sys.argv[1]]
    KEPT.mkdir(parents=True, exist_ok=True)
    os.chdir(run_tests.ROOT)
    return 0 if command(int(sys.argv[2]) if len(sys.argv) == 3 else times) else 1


if __name__ == "__main__":
    sys.exit(main())
