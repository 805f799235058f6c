#!/usr/bin/env bash
# baresip.sh DIR: the tree's baresip in the foreground with the configuration in DIR (tests/kit/phone.rs
# writes it); adds to it where the tree keeps baresip's modules.
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_command "$OFFHOOK_TREE" bin/baresip || lab_die "no baresip in $OFFHOOK_TREE; run: make setup"
printf 'module_path %s\n' "$OFFHOOK_TREE/usr/lib/baresip/modules" >>"${1:?a directory is needed}/config"
exec "${tree_command[@]}" -f "$1"
