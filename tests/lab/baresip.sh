#!/usr/bin/env bash
# baresip.sh DIR: the tree's baresip in the foreground with the configuration in DIR (tests/kit/phone.rs
# writes it); adds to it where the tree keeps baresip's modules.
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_command "$OFFHOOK_TREE" bin/baresip || lab_die "no baresip in $OFFHOOK_TREE; run: make setup"
printf 'module_path %s\n' "$OFFHOOK_TREE/usr/lib/baresip/modules" >>"${1:?a directory is needed}/config"
# A telephone is a machine of its own, so it waits for no core that others keep busy. baresip 1.1.0 can crash where its player is
# stopped before the player's thread has begun (its PR 2917), as by the answer of a call that its audio has overtaken.
first=()
[ "$(nice -n -10 nice 2>/dev/null)" != -10 ] || first=(nice -n -10)
exec "${first[@]}" "${tree_command[@]}" -f "$1"
