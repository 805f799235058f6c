#!/usr/bin/env bash
# fuzz.sh TARGET MINUTES: feeds one parser changed input. fuzz.sh all MINUTES: each of them, one after the other.
# fuzz.sh keep TARGET: takes what was found and covers more into the corpus. fuzz.sh list: the targets.
#
# Stable Rust suffices: the compiler's own passes put in what libFuzzer counts by. docs/fuzzing.md tells the rest.
set -euo pipefail
cd "$(dirname "$0")/../.."

target_dir=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
program=$target_dir/$host/debug/offhook-fuzz
# Files that one target may have in the corpus, and bytes of each of them.
files_max=100
bytes_max=16384

say() { printf '%s\n' "$*" >&2; }

build() {
  local pass flags='--cfg fuzzing -Ccodegen-units=16 -Cpasses=sancov-module'
  for pass in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$pass"
  done
  # With a target of their own, build scripts and macros are left as they are.
  RUSTFLAGS=$flags "${CARGO:-cargo}" build --locked --manifest-path tests/fuzz/Cargo.toml \
    --target "$host" --target-dir "$target_dir"
}

targets() { ls tests/fuzz/corpus; }

known() {
  [ -d "tests/fuzz/corpus/$1" ] || { say "no target $1; there are: $(targets | paste -sd' ')"; exit 2; }
}

# One target for so many seconds. An input that fails is kept, and named at the end.
run() {
  local name=$1 seconds=$2 found=$target_dir/found/$1 failed=$target_dir/failed/$1
  mkdir -p "$found" "$failed"
  say "== $name, $seconds s"
  local TIMEFORMAT='stat::processor_time_seconds:    %U'
  time FUZZ_TARGET=$name RUST_BACKTRACE=1 nice -n 19 "$program" "$found" "tests/fuzz/corpus/$name" \
    -max_total_time="$seconds" -max_len="$bytes_max" -timeout=20 -rss_limit_mb=2048 -reload=0 \
    -artifact_prefix="$failed/" -print_final_stats=1 2>"$target_dir/$name.log" || {
    tail -n 40 "$target_dir/$name.log" >&2
    say "$name FAILED; its input is in $failed"
    return 1
  }
  grep -E '^#[0-9]+.*(DONE)|^stat::number_of_executed_units|^stat::average|^stat::peak' "$target_dir/$name.log"
}

# What was found and reaches what the corpus does not, smallest first.
keep() {
  local name=$1 found=$target_dir/found/$1 chosen=$target_dir/chosen/$1 corpus=tests/fuzz/corpus/$1 file size room
  rm -rf "$chosen"
  mkdir -p "$chosen" "$found"
  cp "$corpus"/* "$chosen"
  FUZZ_TARGET=$name nice -n 19 "$program" -set_cover_merge=1 -max_len="$bytes_max" "$chosen" "$found" 2>"$target_dir/$name.merge.log"
  room=$((files_max - $(find "$corpus" -type f | wc -l)))
  find "$chosen" -type f -printf '%s %f\n' | sort -n | while read -r size file; do
    [ "$room" -gt 0 ] || break
    [ ! -e "$corpus/$file" ] && [ "$size" -le "$bytes_max" ] || continue
    cp "$chosen/$file" "$corpus/$file"
    room=$((room - 1))
  done
  say "$name: $(find "$corpus" -type f | wc -l) files, $(du -bs "$corpus" | cut -f1) bytes"
}

case ${1:-} in
  list) targets ;;
  build) build ;;
  keep)
    known "${2:?which target?}"
    build
    keep "$2"
    ;;
  all)
    build
    failed=()
    for name in $(targets); do run "$name" $((60 * ${2:-60})) || failed+=("$name"); done
    [ ${#failed[@]} = 0 ] || { say "failed: ${failed[*]}"; exit 1; }
    ;;
  '') say "which target? there are: $(targets | paste -sd' '), or all"; exit 2 ;;
  *)
    known "$1"
    build
    run "$1" $((60 * ${2:-1}))
    ;;
esac
