# Sourced by the lab's scripts: where the telephony programs live, and how one of them is run.
#
# The tree holds Asterisk and baresip of a newer Debian release (provision.sh). Its programs run with
# its own dynamic loader and libraries: no chroot, no root, nothing of the host is replaced.
# shellcheck shell=bash

# What is fetched or made once is kept in a cache directory, which for root is the system's own so that every checkout on a
# build machine shares it. OFFHOOK_TREE names the tree itself.
if [ "$(id -u)" = 0 ]; then cache=/var/cache; else cache=$HOME/.cache; fi
lab_cache=${XDG_CACHE_HOME:-$cache}/offhook
OFFHOOK_TREE=${OFFHOOK_TREE:-$lab_cache/asterisk}

lab_say() { printf '%s\n' "$*" >&2; }
lab_die() { lab_say "${0##*/}: $*"; exit 1; }

# tree_libraries TREE: prints the directory of the tree's shared libraries; fails if there is none.
tree_libraries() {
  local directory
  for directory in "$1"/usr/lib/*-linux-gnu*; do
    [ -d "$directory" ] && { printf '%s\n' "$directory"; return 0; }
  done
  return 1
}

# tree_command TREE PROGRAM: sets the array `tree_command` that runs usr/PROGRAM of the tree.
tree_command() {
  local libraries loader
  libraries=$(tree_libraries "$1") || return 1
  for loader in "$libraries"/ld-linux*.so.*; do :; done
  [ -x "$loader" ] && [ -x "$1/usr/$2" ] || return 1
  tree_command=("$loader" --library-path "$libraries:$1/usr/lib" --argv0 "${2##*/}" "$1/usr/$2")
}

# tree_works TREE: prints Asterisk's version if Asterisk and baresip of the tree both start.
tree_works() {
  local tree_command said
  tree_command "$1" bin/baresip || { lab_say "no baresip in $1"; return 1; }
  said=$("${tree_command[@]}" -h 2>&1) || true # baresip's help ends with a failure code
  case $said in baresip\ v*) ;; *) lab_say "baresip does not start: $said"; return 1 ;; esac
  tree_command "$1" sbin/asterisk || { lab_say "no Asterisk in $1"; return 1; }
  "${tree_command[@]}" -V
}
