#!/usr/bin/env bash
# pbx.sh: the lab's Asterisk with offhook attached, for a softphone. Ctrl-C stops both.
#
#   PBX_BIND=192.0.2.7   address for SIP and audio, when the softphone is on another machine (127.0.0.1)
#   PBX_SIP_PORT=5060    port for SIP, UDP
#   PBX_ARI_PORT=8088    port for ARI on 127.0.0.1, TCP
#   CONFIG=FILE          offhook's configuration (config/asterisk.yaml)
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

config=${CONFIG:-config/asterisk.yaml}
bind=${PBX_BIND:-127.0.0.1}
sip_port=${PBX_SIP_PORT:-5060}
ari_port=${PBX_ARI_PORT:-8088}
offhook=${CARGO_TARGET_DIR:-target}/debug/offhook
directory=$(mktemp -d -t offhook-pbx-XXXXXX)
phone_password=$(random 6)

export ARI_URL=http://127.0.0.1:$ari_port ARI_USERNAME=offhook
ARI_PASSWORD=$(random 16)
export ARI_PASSWORD

asterisk=
engine=
stop() {
  trap - EXIT INT TERM
  # The engine first: it says goodbye to its calls while Asterisk still stands.
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
  fi
  if [ -n "$asterisk" ]; then
    kill "$asterisk" 2>/dev/null || true
    wait "$asterisk" 2>/dev/null || true
  fi
  rm -rf "$directory"
  printf '\nStopped.\n'
}
trap stop EXIT
# Ctrl-C reaches Asterisk and offhook as well; both end by it, `stop` waits for them.
trap 'exit 130' INT
trap 'exit 143' TERM

LAB_ARI_PASSWORD=$ARI_PASSWORD LAB_ARI_USER=$ARI_USERNAME LAB_BIND=$bind \
  LAB_SIP_PORT=$sip_port LAB_HTTP_PORT=$ari_port LAB_PHONE_PASSWORD=$phone_password \
  tests/lab/asterisk.sh run "$directory" </dev/null >"$directory/console" 2>&1 &
asterisk=$!
booted=
for _ in $(seq 100); do
  kill -0 "$asterisk" 2>/dev/null || break
  if tests/lab/asterisk.sh cli "$directory" core waitfullybooted 2>/dev/null | grep -q 'fully booted'; then
    booted=yes
    break
  fi
  sleep 0.1
done
[ -n "$booted" ] || {
  tail -n 20 "$directory/console" >&2
  lab_die "Asterisk did not start; are UDP $sip_port and TCP $ari_port free?"
}

cat <<T
$(tests/lab/asterisk.sh version) is up.

  Softphone account   user softphone   password $phone_password   server $bind:$sip_port (UDP)
  Dial                7000  the default agent        7001  support, by Stasis(offhook,support)
                      7002  sales, by AI_CONTEXT     7003  support with another greeting, by RTP
                      7080  support by AudioSocket() without ARI
                      desk  a human, 1700 Hz         echo  your own voice
  Asterisk's console  tests/lab/asterisk.sh cli $directory core show channels
  Its log             $directory/log/messages

offhook follows; Ctrl-C stops both.

T
"$offhook" run --config "$config" </dev/null &
engine=$!
# Whichever ends first ends the other.
wait -n "$asterisk" "$engine" || true
kill -0 "$asterisk" 2>/dev/null || lab_say "Asterisk has ended."
