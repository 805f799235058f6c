#!/usr/bin/env python3
"""Licence check: every crate that the build uses must be under terms that fit Apache-2.0 OR MIT.

Reads `cargo metadata`, judges each crate's SPDX expression, prints what is not known to fit, and ends
with code 1 if there is anything. A new licence is added to ALLOWED by hand, after reading it.
"""

import json
import re
import subprocess
import sys

# Permissive; attribution at most.
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
# Exceptions only ever widen what the licence permits.
ALLOWED_EXCEPTIONS = {"LLVM-exception"}


class Expression:
    """A recursive-descent reader of SPDX expressions: OR binds loosest, then AND, then WITH."""

    def __init__(self, text):
        # Crates of before 2020 write MIT/Apache-2.0.
        self.words = re.findall(r"[()]|[^\s()]+", text.replace("/", " OR "))

    def fits(self):
        verdict = self._any()
        if self.words:
            raise ValueError(f"unexpected {self.words[0]!r}")
        return verdict

    def _take(self, word):
        if self.words and self.words[0].upper() == word:
            return self.words.pop(0)
        return None

    def _any(self):
        verdict = self._all()
        while self._take("OR"):
            verdict = self._all() or verdict
        return verdict

    def _all(self):
        verdict = self._one()
        while self._take("AND"):
            verdict = self._one() and verdict
        return verdict

    def _one(self):
        if self._take("("):
            verdict = self._any()
            if not self._take(")"):
                raise ValueError("a parenthesis is not closed")
            return verdict
        if not self.words:
            raise ValueError("it ends too early")
        verdict = self.words.pop(0) in ALLOWED
        if self._take("WITH"):
            verdict = verdict and bool(self.words) and self.words.pop(0) in ALLOWED_EXCEPTIONS
        return verdict


def judge(package):
    """What is wrong with a package's licence, or None."""
    licence = package["license"]
    if not licence:
        return f"names no licence (license file: {package['license_file']})"
    try:
        return None if Expression(licence).fits() else f"{licence} is not in the list of allowed licences"
    except ValueError as why:
        return f"{licence!r} is not an SPDX expression: {why}"


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--quiet"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    problems = [(package["name"], package["version"], judge(package)) for package in metadata["packages"]]
    problems = [problem for problem in problems if problem[2]]
    for name, version, problem in problems:
        print(f"licence: {name} {version}: {problem}", file=sys.stderr)
    if problems:
        print("Use another crate, or read its licence and add it to tests/lab/licences.py.", file=sys.stderr)
        return 1
    print(f"licences: {len(metadata['packages'])} crates, all allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
