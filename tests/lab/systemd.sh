#!/usr/bin/env bash
# systemd.sh: deploy/offhook.service on a real systemd, in a Debian of its own that systemd-nspawn boots. Two minutes, as
# root, with the packages debootstrap and systemd-container; no part of `make test`, since not every machine lets it boot.
#
#   tests/lab/systemd.sh [PROGRAM]     target/debug/offhook
#
# What it shows: the unit starts, takes a call and keeps its record, which its user can read, has neither root nor capabilities, reloads, refuses
# a broken configuration and goes on, comes back after a crash, and stops in order.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

program=${1:-${CARGO_TARGET_DIR:-target}/debug/offhook}
[ "$(id -u)" = 0 ] || lab_die "only root can boot another system"
for needed in debootstrap systemd-nspawn nsenter python3; do
  command -v "$needed" >/dev/null || lab_die "no $needed; apt-get install debootstrap systemd-container"
done
[ -x "$program" ] || lab_die "no $program; run: cargo build"

work=$(mktemp -d -t offhook-systemd-XXXXXX)
system=$work/system
nspawn=
stop() {
  [ -z "$nspawn" ] || { kill "$nspawn" 2>/dev/null; wait "$nspawn" 2>/dev/null; } || true
  rm -rf "$work"
}
trap stop EXIT

mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')
lab_say "A Debian of its own into $system"
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,libopus0,espeak-ng,curl \
  bookworm "$system" "${mirror:-http://deb.debian.org/debian}" >"$work/log" 2>&1 ||
  { tail -n 5 "$work/log" >&2; lab_die "debootstrap failed"; }
chroot "$system" useradd --system --home-dir /var/lib/offhook --shell /usr/sbin/nologin offhook
install -m 755 "$program" "$system/usr/local/bin/offhook"
install -m 644 deploy/offhook.service "$system/etc/systemd/system/"
install -d "$system/etc/offhook" "$system/etc/systemd/system/multi-user.target.wants"
install -m 644 deploy/offhook/offhook.yaml "$system/etc/offhook/"
install -m 600 /dev/null "$system/etc/offhook/secrets.env"
echo 'ARI_PASSWORD=of-this-test' >"$system/etc/offhook/secrets.env"
ln -s ../offhook.service "$system/etc/systemd/system/multi-user.target.wants/"

systemd-nspawn -q -D "$system" --boot --private-network --register=no --keep-unit --console=pipe >"$work/console" 2>&1 </dev/null &
nspawn=$!
# Its systemd is nspawn's only child.
leader() { tr -d ' ' <"/proc/$nspawn/task/$nspawn/children"; }
# inside COMMAND…: among its processes and files.
inside() { nsenter -t "$(leader)" -a "$@"; }
# eventually WHAT COMMAND…: within 30 seconds.
eventually() {
  local what=$1 _
  shift
  for _ in $(seq 150); do "$@" >/dev/null 2>&1 && { lab_say "  $what"; return 0; }; sleep 0.2; done
  inside journalctl -u offhook --no-pager -n 30 >&2 || cat "$work/console" >&2
  lab_die "not so: $what"
}
metric() { inside curl -sf http://127.0.0.1:15000/metrics | grep -qF "$1"; }
property() { inside systemctl show -P "$1" offhook; }
is() { [ "$(property "$1")" = "$2" ]; }
has() { inside grep -qE "$1" "/proc/$(property MainPID)/status"; }

eventually "it is up" inside curl -sf http://127.0.0.1:15000/live
eventually "it has neither root nor a capability" has '^CapEff:\s0+$'
if has '^Uid:\s0\s'; then lab_die "it runs as root"; fi
# A caller as Asterisk's AudioSocket() would connect, for two seconds.
nsenter -t "$(leader)" -n python3 - <<'P'
import socket, time, uuid
call = socket.create_connection(("127.0.0.1", 9092))
call.sendall(b"\x01\x00\x10" + bytes.fromhex("0ff40001") + uuid.uuid4().bytes[4:])
heard = b""
call.setblocking(False)
for frame in range(100):
    call.sendall(b"\x10\x01\x40" + bytes(320))
    time.sleep(0.02)
    try:
        heard += call.recv(65536)
    except BlockingIOError:
        pass
assert sum(1 for sample in heard if sample not in (0, 255)) > 1000, "the caller hears nothing"
P
eventually "a caller hears the agent, and the record of the call is kept" metric 'offhook_records_total 1'
# As an administrator does, beside the engine that runs.
as_user() { inside runuser -u offhook -- "$@"; }
as_user offhook account add ada --role admin --accounts /var/lib/offhook/accounts.json >/dev/null
eventually "an account can be made" sh -c "grep -q ada '$system/var/lib/offhook/accounts.json'"
eventually "the records can be read" as_user offhook calls --records /var/lib/offhook/records
inside systemctl reload offhook
eventually "it reloads" metric 'offhook_reloads_total{outcome="loaded"} 1'
echo 'nonsense: 1' >>"$system/etc/offhook/offhook.yaml"
if inside systemctl reload offhook 2>/dev/null; then lab_die "a broken configuration was reloaded"; fi
eventually "a broken configuration is refused, and it goes on" is ActiveState active
cp deploy/offhook/offhook.yaml "$system/etc/offhook/"
inside sh -c "kill -9 $(property MainPID)"
eventually "it comes back after a crash" is NRestarts 1
eventually "and takes calls again" inside curl -sf http://127.0.0.1:15000/live
inside systemctl stop offhook
eventually "it stops in order" is Result success
lab_say "The unit does what it says, on $(inside systemctl --version | head -n 1)"
