#!/usr/bin/env python3
"""What an earlier build on this machine compiled, for a fresh clone.

    built.py keep|restore

`keep` puts the target directory of a whole run into the cache, `restore` takes it from there into a clone that has compiled
nothing yet. Cargo compiles what is newer than what was made of it, so a file of the clone that has the same content as when the
cache was filled gets the time that it had then; every other one is as new as the clone, and what depends on it is compiled again.
Nothing depends on the cache: where it cannot be read, fails its checksum or is another compiler's, there is none.

    OFFHOOK_NO_CACHE   set: as if there were no cache
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What cargo looks at, and what it made. Incremental compilation is for the next edit in the same clone.
PARTS = ("debug/.fingerprint", "debug/build", "debug/deps", "debug/doc", "doc", ".rustc_info.json", ".rustdoc_fingerprint.json")
# Each is as large as a target directory, and an older one is of little use.
ARCHIVES_MAX = 2


def cache() -> Path:
    """As `lab_cache` of tree.sh."""
    home = Path("/var/cache") if os.getuid() == 0 else Path.home() / ".cache"
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, check=True).stdout
    return Path(os.environ.get("XDG_CACHE_HOME", home)) / "offhook/built" / hashlib.sha256(compiler).hexdigest()[:16]


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def contents() -> dict[str, str]:
    """A digest of each file of the clone, and of each folder: of the names and contents of all that is in it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {name: digest(ROOT / name) for name in sorted(listed.split("\0")) if name and (ROOT / name).is_file()}
    folders: dict[str, list[str]] = {}
    for name, its_digest in files.items():
        for folder in Path(name).parents:
            folders.setdefault(str(folder), []).append(f"{name} {its_digest}")
    return files | {name: hashlib.sha256("\n".join(inside).encode()).hexdigest() for name, inside in folders.items()}


def key(found: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def dependencies(found: dict[str, str]) -> str:
    """An archive of other dependencies, profiles or flags would be carried along, unused, from clone to clone."""
    made_of = [found.get(name) for name in ("Cargo.lock", "Cargo.toml")]
    return hashlib.sha256(json.dumps([made_of, os.environ.get("RUSTFLAGS", "")]).encode()).hexdigest()[:16]


def archive_of(folder: Path, found: dict[str, str]) -> Path:
    return folder / f"{dependencies(found)}-{key(found)}.tar"


def checksum_of(archive: Path) -> Path:
    return archive.with_suffix(".sum")


def newest_first(folder: Path, names: str = "*.tar") -> list[Path]:
    return sorted(folder.glob(names), key=lambda archive: archive.stat().st_mtime, reverse=True)


def keep() -> None:
    folder, found = cache(), contents()
    archive = archive_of(folder, found)
    if not (TARGET / "debug/deps").exists() or archive.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".partial.*"):
        if left.stat().st_mtime < time.time() - 86_400:
            left.unlink()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".partial.") as partial, tempfile.TemporaryDirectory() as beside:
        times = {name: [its_digest, (ROOT / name).stat().st_mtime_ns] for name, its_digest in found.items()}
        Path(beside, "sources.json").write_text(json.dumps(times))
        parts = [part for part in PARTS if (TARGET / part).exists()]
        # Times to the nanosecond: cargo compares them.
        subprocess.run(["tar", "--format=posix", "-cf", partial.name, "-C", beside, "sources.json", "-C", str(TARGET.resolve()), *parts],
                       check=True)
        checksum_of(archive).write_text(digest(Path(partial.name)))
        os.link(partial.name, archive)
    for old in newest_first(folder)[ARCHIVES_MAX:]:
        checksum_of(old).unlink(missing_ok=True)
        old.unlink()
    say(f"Kept {archive.stat().st_size >> 20} MB of what was compiled in {archive}")


def restore() -> None:
    if (TARGET / "debug").exists():
        return
    folder, found = cache(), contents()
    same = archive_of(folder, found)
    for archive in [same] if same.exists() else newest_first(folder, f"{dependencies(found)}-*.tar")[:1]:
        if not checksum_of(archive).exists() or digest(archive) != checksum_of(archive).read_text():
            say(f"{archive} is damaged and is left out")
            archive.unlink()
            return
        TARGET.mkdir(parents=True, exist_ok=True)
        # To its place when it is whole.
        with tempfile.TemporaryDirectory(dir=TARGET, prefix="restored.") as beside:
            subprocess.run(["tar", "-C", beside, "-xf", archive], check=True)
            sources = json.loads(Path(beside, "sources.json").read_text())
            unchanged = [name for name, its_digest in found.items() if sources.get(name, [None])[0] == its_digest]
            for name in unchanged:
                os.utime(ROOT / name, ns=(sources[name][1],) * 2)
            for part in {Path(part).parts[0] for part in PARTS}:
                if (Path(beside) / part).exists() and not (TARGET / part).exists():
                    os.rename(Path(beside) / part, TARGET / part)
        say(f"What was compiled before is from {archive}; {len(found) - len(unchanged)} of {len(found)} files and folders have changed")


def main() -> None:
    doing = {"keep": keep, "restore": restore}.get(sys.argv[1] if len(sys.argv) == 2 else "")
    if doing is None:
        sys.exit(__doc__)
    if os.environ.get("OFFHOOK_NO_CACHE"):
        return
    try:
        doing()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        # A cache that fails is no failure.
        say(f"What was compiled before could not be {'kept' if doing is keep else 'used'}, so a fresh clone compiles it: {error}")


if __name__ == "__main__":
    main()
