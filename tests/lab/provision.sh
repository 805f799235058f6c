#!/usr/bin/env bash
# Puts Asterisk 22 and the test phone (baresip) on a Debian machine whose release does not carry them.
#
#   tests/lab/provision.sh          tree in $OFFHOOK_TREE, see tree.sh; about 20 s, 280 MB
#
# apt fetches the programs and everything they need from a Debian release that has them, into lists
# and an archive of its own (signatures checked with the host's Debian keys), and dpkg-deb unpacks
# them into one directory. Nothing is installed on the host and root is not needed.
#
#   OFFHOOK_SUITES   Debian suites to try in turn              ("forky sid")
#   OFFHOOK_MIRROR   Debian mirror                             (the one apt uses)
#   OFFHOOK_REBUILD  set: build again although a tree is there
#
# A tree is moved to its place only when its programs have started, so a tree that is there is whole.
set -euo pipefail
cd "$(dirname "$0")"
. ./tree.sh

packages=(asterisk asterisk-core-sounds-en baresip-core)
suites=${OFFHOOK_SUITES:-forky sid}

mirror() {
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk -v codename="$codename" '$2 == codename && $3 == "main" { sub("/$", "", $1); print $1; exit }'
}

# Runs a command with its output in the log, and says every few seconds that it still runs.
step() {
  local what=$1 began=$SECONDS child
  shift
  printf '  %s ' "$what" >&2
  "$@" >>"$log" 2>&1 &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.2
    [ $(((SECONDS - began) % 3)) = 0 ] && [ "$SECONDS" != "${dotted:-}" ] && { dotted=$SECONDS; printf . >&2; }
  done
  if wait "$child"; then
    printf ' %s s\n' $((SECONDS - began)) >&2
  else
    printf ' failed\n' >&2
    return 1
  fi
}

unpack() {
  local package
  for package in "$work"/archives/*.deb; do dpkg-deb --extract "$package" "$work/tree"; done
}

build() {
  local suite=$1
  rm -rf "$work"
  mkdir -p "$work"/{tree,lists/partial,archives/partial,state}
  : >"$work/status"
  : >"$log"
  echo "deb $mirror $suite main" >"$work/sources.list"
  # Signatures are checked; the age of the list is not (nor is it by debootstrap), because a mirror that
  # stands still, as build farms have them, is as good for a tree that only tests use.
  cat >"$work/apt.conf" <<C
Acquire::Check-Valid-Until "false";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::State::lists "$work/lists";
Dir::Cache "$work";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
C
  export APT_CONFIG=$work/apt.conf
  # Without --error-on=any apt calls an unreachable mirror a warning.
  step "reading the package list of Debian $suite" apt-get -q update --error-on=any || return 1
  # `sid` is the one suite without a release to wait for; a download that breaks off is resumed.
  step "fetching Asterisk and baresip" apt-get -q -y --download-only install "${packages[@]}" ||
    step "fetching them once more" apt-get -q -y --download-only install "${packages[@]}" || return 1
  step "unpacking" unpack || return 1
  unset APT_CONFIG
  version=$(tree_works "$work/tree" 2>>"$log")
}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
  lab_die "needs a Debian system (apt-get, dpkg-deb); elsewhere set OFFHOOK_TREE to a tree that has usr/sbin/asterisk and usr/bin/baresip"
mkdir -p "$(dirname "$OFFHOOK_TREE")" 2>/dev/null && [ -w "$(dirname "$OFFHOOK_TREE")" ] ||
  lab_die "cannot write to $(dirname "$OFFHOOK_TREE"); set XDG_CACHE_HOME to a directory of yours"

# Two checkouts may be set up at once.
exec 9>"$OFFHOOK_TREE.lock"
flock 9
if [ -z "${OFFHOOK_REBUILD:-}" ] && version=$(tree_works "$OFFHOOK_TREE" 2>/dev/null); then
  lab_say "$version is in $OFFHOOK_TREE"
  exit 0
fi

mirror=${OFFHOOK_MIRROR:-$(mirror)}
[ -n "$mirror" ] || lab_die "apt knows no Debian mirror for this release; set OFFHOOK_MIRROR to the address of one"
work=$OFFHOOK_TREE.partial
log=$OFFHOOK_TREE.log
lab_say "Asterisk 22 and baresip into $OFFHOOK_TREE (from $mirror)"
for suite in $suites; do
  if build "$suite"; then
    rm -rf "$OFFHOOK_TREE"
    mv "$work/tree" "$OFFHOOK_TREE"
    rm -rf "$work" "$log"
    lab_say "$version is ready in $OFFHOOK_TREE"
    exit 0
  fi
  unset APT_CONFIG
  lab_say "  no tree from suite $suite; the end of $log:"
  tail -n 8 "$log" | sed 's/^/    /' >&2
  cp "$log" "$log.$suite"
done
rm -rf "$work"
lab_die "no Asterisk could be had. Check the network and the lines above; another mirror: OFFHOOK_MIRROR=…, another suite: OFFHOOK_SUITES=…"
