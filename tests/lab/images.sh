#!/usr/bin/env bash
# images.sh: what the Dockerfiles describe, without Docker. Four minutes, as root, with the package debootstrap; no part
# of `make test`. The file systems are made of the same packages, and both programs are started in them as
# docker-compose.yml does: by their numbers, without capabilities, read-only but for the volumes and tmpfs that are
# named there, in one network, which is this script's own. Then a call goes through both.
#
#   tests/lab/images.sh [PROGRAM]     target/debug/offhook
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

# confine NAME UID VOLUME TMPFS: the file system as the container has it.
confine() {
  local system=$work/$1 uid=$2 volume=$3 memory=$4 device
  mount --bind "$system" "$system"
  mount --bind "$system$volume" "$system$volume"
  mount -o remount,bind,ro "$system"
  mount -t tmpfs -o mode=1777,noexec,nosuid,nodev tmpfs "$system/tmp"
  [ -z "$memory" ] || mount -t tmpfs -o "mode=0700,uid=$uid,gid=$uid,noexec,nosuid,nodev" tmpfs "$system$memory"
  mount -t proc proc "$system/proc"
  mount -t tmpfs tmpfs "$system/dev"
  for device in null zero random urandom; do
    touch "$system/dev/$device"
    mount --bind "/dev/$device" "$system/dev/$device"
  done
}

# within NAME UID COMMAND…: as the container's user, with nothing of the environment but what is written here.
within() {
  local name=$1 uid=$2
  shift 2
  chroot "$work/$name" setpriv --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin "$@"
}
console() { within asterisk 10002 asterisk -C /run/asterisk/etc/asterisk.conf -rx "$1"; }
healthy() { within offhook 10001 offhook-healthy; }
# says PAGE WORDS: whether a page of offhook's has them.
says() {
  exec 3<>/dev/tcp/127.0.0.1/15000 || return 1
  printf 'GET /%s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&3
  local page
  page=$(cat <&3)
  exec 3>&-
  grep -q -- "$2" <<<"$page"
}
# eventually WHAT COMMAND…: within 30 seconds.
eventually() {
  local what=$1 _
  shift
  for _ in $(seq 150); do "$@" >/dev/null 2>&1 && { lab_say "  $what"; return 0; }; sleep 0.2; done
  tail -n 20 "$work"/*.out >&2
  lab_die "not so: $what"
}

# In a network, mounts and processes that end with it: the ports are those of docker-compose.yml.
if [ "${1:-}" = inside ]; then
  work=$2
  ip link set lo up
  confine offhook 10001 /var/lib/offhook ''
  confine asterisk 10002 /var/spool/offhook-asterisk /run/asterisk
  if within offhook 10001 touch /var/written 2>/dev/null || within asterisk 10002 touch /var/written 2>/dev/null; then
    lab_die "the file systems are not read-only"
  fi
  within asterisk 10002 ASTERISK_ARI_PASSWORD=of-this-test ASTERISK_PHONE_PASSWORD=of-this-test \
    ASTERISK_DIALPLAN=/opt/offhook/dialplan ASTERISK_SPOOL=/var/spool/offhook-asterisk \
    /opt/offhook/asterisk/start.sh >"$work/asterisk.out" 2>&1 &
  within offhook 10001 ARI_PASSWORD=of-this-test offhook run --log-format json --config /etc/offhook/offhook.yaml \
    >"$work/offhook.out" 2>&1 &
  eventually "Asterisk is healthy" console "core waitfullybooted"
  eventually "offhook is healthy" healthy
  eventually "they are connected: /ready says 200" says ready "200 OK"
  # Two extensions are connected with each other: two agents, for four seconds.
  python3 - <<'P'
import base64, time, urllib.request
def ari(method, path):
    key = base64.b64encode(b"offhook:of-this-test").decode()
    headers = {"Authorization": f"Basic {key}"}
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:8088/ari/{path}", method=method, headers=headers))
ari("POST", "channels?endpoint=Local/7000@phones/n&context=phones&extension=7001&priority=1&channelId=caller")
time.sleep(4)
ari("DELETE", "channels/caller")
P
  eventually "two calls go through both, and their records are in the volume" says metrics '^offhook_records_total 2'
  says metrics '^offhook_first_audio_seconds_count 2' || lab_die "an agent was not heard"
  for program in offhook asterisk; do
    status=$(cat "/proc/$(pgrep -x "$program" | head -n 1)/status")
    grep -qP '^CapEff:\t0+$' <<<"$status" && grep -qP '^NoNewPrivs:\t1$' <<<"$status" && ! grep -qP '^Uid:\t0\t' <<<"$status" ||
      lab_die "$program has rights that it should not: $status"
  done
  lab_say "  neither has root, a capability, or a way to either"
  exit
fi

program=${1:-${CARGO_TARGET_DIR:-target}/debug/offhook}
[ "$(id -u)" = 0 ] || lab_die "only root can make a file system"
command -v debootstrap >/dev/null || lab_die "no debootstrap; apt-get install debootstrap"
[ -x "$program" ] || lab_die "no $program; run: cargo build"
work=$(mktemp -d -t offhook-images-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')

# base DOCKERFILE: the suite of its last FROM. packages DOCKERFILE: what it installs there.
base() { sed -n 's/^FROM debian:\([a-z]*\)-slim$/\1/p' "$1" | tail -n 1; }
packages() {
  local programs
  programs=$(sed -n 's/^ARG PROGRAMS="\(.*\)"$/\1/p' "$1")
  sed -n 's/.*--no-install-recommends \(.*\) \\$/\1/p' "$1" | tail -n 1 | sed "s/\$PROGRAMS/$programs/"
}
# make NAME DOCKERFILE UID VOLUME
make() {
  local name=$1 file=$2 uid=$3 volume=$4 include
  include=$(packages "$file" | tr ' ' ',')
  lab_say "$name: Debian $(base "$file") with $include"
  # debootstrap 1.0.128 knows no newer suites by name; all of them are made alike.
  debootstrap --variant=minbase --include="$include" "$(base "$file")" "$work/$name" \
    "${mirror:-http://deb.debian.org/debian}" /usr/share/debootstrap/scripts/sid >"$work/$name.log" 2>&1 ||
    { tail -n 5 "$work/$name.log" >&2; lab_die "debootstrap failed"; }
  install -d -o "$uid" -g "$uid" -m 700 "$work/$name$volume"
}
make offhook Dockerfile 10001 /var/lib/offhook
install -m 755 "$program" "$work/offhook/usr/local/bin/offhook"
install -m 755 deploy/healthy.sh "$work/offhook/usr/local/bin/offhook-healthy"
mkdir -p "$work/offhook/etc/offhook"
cp deploy/offhook/* "$work/offhook/etc/offhook/"
make asterisk deploy/asterisk/Dockerfile 10002 /var/spool/offhook-asterisk
mkdir -p "$work/asterisk/opt/offhook" "$work/asterisk/run/asterisk"
cp -r deploy/asterisk dialplan "$work/asterisk/opt/offhook/"

unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$work"
