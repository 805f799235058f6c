#!/usr/bin/env bash
# built.sh keep|restore: the compiled dependencies of an earlier build on this machine, for a fresh clone.
#
# keep puts what cargo has compiled of other people's crates into the cache, restore takes it from there into a target
# directory that holds none yet. Cargo looks at each of it as if it had compiled it a moment ago, and compiles what it finds
# wanting; nothing depends on the cache, and where it cannot be read, fails its checksum or is of another build, there is none.
#
#   OFFHOOK_NO_CACHE   set: as if there were no cache
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

target=${CARGO_TARGET_DIR:-target}
# Another compiler can use nothing of it.
folder=$lab_cache/built/$(rustc -vV | sha256sum | cut -c1-16)

# Whatever decides how dependencies are compiled: another lock file or another profile is another key.
key() {
  {
    cat Cargo.lock Cargo.toml src/core/Cargo.toml src/core/audio/Cargo.toml tests/kit/Cargo.toml mcp_servers/*/Cargo.toml
    printf '%s\n' "${RUSTFLAGS:-}"
  } | sha256sum | cut -c1-16
}

# Names of our own packages and of their targets, which are compiled from the clone.
ours() {
  cargo metadata --format-version 1 --no-deps --locked | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
names = {each["name"] for package in packages for each in [package, *package["targets"]]}
print(*sorted(names | {name.replace("-", "_") for name in names}), sep="\n")'
}

keep() {
  local archive name left_out=() temporary
  archive=$folder/$(key).tar
  [ -d "$target/debug/deps" ] && [ ! -e "$archive" ] || return 0
  mkdir -p "$folder" && temporary=$(mktemp "$folder/.partial.XXXXXX") || return 1
  # Behind each name is a hash.
  for name in $(ours); do
    left_out+=("--exclude=debug/deps/$name-*" "--exclude=debug/deps/lib$name-*")
    left_out+=("--exclude=debug/build/$name-*" "--exclude=debug/.fingerprint/$name-*")
  done
  # Times to the nanosecond: cargo compares them.
  tar --format=posix -C "$target" -cf "$temporary" "${left_out[@]}" debug/deps debug/build debug/.fingerprint &&
    sha256sum <"$temporary" >"$temporary.sum" && mv "$temporary.sum" "$archive.sum" && mv "$temporary" "$archive" || {
    rm -f "$temporary" "$temporary.sum"
    return 1
  }
  # The latest two, whatever compiler they are of; what was interrupted is removed a day later.
  find "$folder" -name '.partial.*' -mtime +1 -delete
  find "$lab_cache/built" -name '*.tar' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d' ' -f2- |
    while read -r name; do rm -f "$name" "$name.sum"; done
  lab_say "Kept $(du -h "$archive" | cut -f1) of compiled dependencies in $archive"
}

restore() {
  local archive
  [ ! -e "$target/debug" ] || return 0
  archive=$folder/$(key).tar
  # Of another lock file most is still of use; cargo compiles the rest.
  [ -e "$archive" ] || archive=$(find "$folder" -name '*.tar' -printf '%T@ %p\n' 2>/dev/null | sort -rn | head -n 1 | cut -d' ' -f2-)
  [ -r "$archive" ] && [ -r "$archive.sum" ] || return 0
  if ! sha256sum <"$archive" | cmp -s - "$archive.sum"; then
    lab_say "$archive is damaged and is left out"
    rm -f "$archive" "$archive.sum"
    return 0
  fi
  # Moved to its place as a whole, and not where another build has begun meanwhile.
  mkdir -p "$target"
  restored=$(mktemp -d "$target/restored.XXXXXX") || return 1
  tar -C "$restored" -xf "$archive" && mv -T "$restored/debug" "$target/debug" && lab_say "Compiled dependencies from $archive"
  rm -rf "$restored"
}

[ -z "${OFFHOOK_NO_CACHE:-}" ] || exit 0
case ${1:-} in
  # A cache that fails is no failure.
  keep) (keep) || lab_say "Compiled dependencies could not be kept; the next fresh clone compiles them" ;;
  restore) (restore) || lab_say "Compiled dependencies of an earlier build could not be used" ;;
  *) lab_die "keep or restore?" ;;
esac
