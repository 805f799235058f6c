#!/usr/bin/env bash
# rustdoc, for `cargo test --doc`: the pages come first, with every warning an error, then the examples in them.
set -euo pipefail

pages=()
for argument in "$@"; do
  [ "$argument" = --test ] && is_test=1 || pages+=("$argument")
done
if [ "${is_test:-}" ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
  rustdoc "${pages[@]}" -Dwarnings --out-dir "$out"
fi
rustdoc "$@"
