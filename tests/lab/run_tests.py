#!/usr/bin/env python3
"""Runs every test: `cargo test` with the arguments given here, and whatever failed among the tests of sound once more.

Sound is measured there in frames of 20 ms, in real time, on a machine that does other things as well: one that stands
still for a tenth of a second has made a hole in a caller's words, and a test that finds it is right. So a target's few
failures run again without the others, and are told; what fails then has failed. Many failures are no hiccup, and
nothing that is not measured in real time is asked twice.
"""

import os
import re
import subprocess
import sys

# Targets whose tests run against the clock of callers.
IN_REAL_TIME = {"calls", "providers", "embedded", "turn_taking", "first", "vam", "vam_secrets", "web", "prometheus", "wyoming"}
# More of one target are no hiccup.
AGAIN_MAX = 12

RUNNING = re.compile(r"^\s+Running (?:unittests )?\S+ \(\S*/deps/(?P<target>\w+)-[0-9a-f]+\)")
FAILED = re.compile(r"^test (?P<name>\S+) \.\.\. FAILED")
# One line of cargo's own list at the end, which has also those that crashed before they could name a test.
TARGET_FAILED = re.compile(r"^    `-p \S+ (?:--test (?P<target>\w+)|\S.*)`$")


def cargo(*arguments: str) -> tuple[int, list[tuple[str, str]], set[str]]:
    """Runs it and shows what it says; returns its exit code, the tests that failed with their targets, and all targets that
    did ("" is one that is no integration test)."""
    command = [os.environ.get("CARGO", "cargo"), "test", *arguments]
    failed, targets, target = [], set(), ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as child:
        for line in child.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if running := RUNNING.match(line):
                target = running["target"]
            elif "Doc-tests" in line:
                target = "documentation"
            elif found := FAILED.match(line):
                failed.append((target, found["name"]))
            elif ended := TARGET_FAILED.match(line):
                targets.add(ended["target"] or "")
    return child.returncode, failed, targets


def main() -> int:
    code, failed, targets = cargo(*sys.argv[1:], "--no-fail-fast")
    if code == 0:
        return 0
    by_target: dict[str, list[str]] = {}
    for target, name in failed:
        by_target.setdefault(target, []).append(name)
    hopeless = [target for target, names in by_target.items() if target not in IN_REAL_TIME or len(names) > AGAIN_MAX]
    if hopeless or not targets or targets != by_target.keys():
        print(f"\nfailed: {', '.join(hopeless) or 'cargo, or a target as a whole'}", file=sys.stderr)
        return code
    for target, names in by_target.items():
        print(f"\n=== {target}: {len(names)} failed beside the others, and are run again: {', '.join(names)}", flush=True)
        code, *_ = cargo(*sys.argv[1:], "--test", target, "--", "--exact", *names)
        if code != 0:
            return code
    told = ", ".join(f"{target}::{name}" for target, name in failed)
    print(f"\n=== passed in the end; passed when run again: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
