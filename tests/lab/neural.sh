#!/usr/bin/env bash
# neural.sh COMMAND …: runs `offhook demo` on Whisper and Piper, with a caller who speaks freely; on the phrases and voices that need
# no models where `setup.sh neural` could not make these, which has said why.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

models=${CARGO_TARGET_DIR:-target}/neural
[ -e "$models/ready" ] || {
  lab_say "Without Whisper and Piper, for the reason above: the demo runs on PocketSphinx and espeak-ng."
  exec "$@"
}
exec "$models/venv/bin/python" deploy/neural/serve.py "$models" -- "$@" --config config/neural.yaml --free-words piper
