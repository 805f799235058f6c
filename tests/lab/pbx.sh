#!/usr/bin/env bash
# pbx.sh: the lab's Asterisk with offhook attached, for a softphone. Ctrl-C stops both.
#
#   PBX_BIND=192.0.2.7   address for SIP and audio, when the softphone is on another machine (127.0.0.1)
#   PBX_SIP_PORT=5060    port for SIP, UDP
#   PBX_HTTP_PORT=8088   port for Asterisk's HTTP server, which ARI uses; on 127.0.0.1
#   CONFIG=FILE          offhook's configuration (config/asterisk.yaml)
#   OFFHOOK_STATE=FOLDER where the records of calls stay (gone with Asterisk, where it is not set)
#
# Ends with offhook's exit code, or with 0 after Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

config=${CONFIG:-config/asterisk.yaml}
bind=${PBX_BIND:-127.0.0.1}
sip_port=${PBX_SIP_PORT:-5060}
http_port=${PBX_HTTP_PORT:-8088}
offhook=${CARGO_TARGET_DIR:-target}/debug/offhook
phone_password=$(random 6)

export ARI_URL=http://127.0.0.1:$http_port ARI_USERNAME=offhook
ARI_PASSWORD=$(random 16)
export ARI_PASSWORD

"$offhook" check "$config" || exit

# configured SECTION DEFAULT: the `bind:` of http or of audiosocket in the configuration, as far as it is
# written plainly.
configured() {
  awk -v section="$1:" -v found="$2" '
    /^[a-z]/ || $1 == "audiosocket:" || $1 == "rtp:" { current = $1 }
    $1 == "bind:" && current == section && $2 ~ /^[0-9.]+:[0-9]+$/ { found = $2 }
    END { print found }' "$config"
}
audiosocket=$(configured audiosocket 127.0.0.1:9092)
pages=$(configured http 127.0.0.1:15000)
pages=${pages/#0.0.0.0/127.0.0.1}

# taken PROTOCOL PORT: whether something listens there; udp sockets do so as soon as they are bound.
taken() {
  local files=(/proc/net/"$1")
  [ ! -r "/proc/net/${1}6" ] || files+=("/proc/net/${1}6")
  awk -v port=":$(printf %04X "$2")" -v protocol="$1" '
    $2 ~ port "$" && (protocol == "udp" || $4 == "0A") { found = 1 }
    END { exit !found }' "${files[@]}"
}
busy=
need() {
  ! taken "$1" "$2" || { lab_say "${1^^} $2 is in use; $3"; busy=yes; }
}
need udp "$sip_port" "another port: PBX_SIP_PORT=$((sip_port + 10)) make pbx"
need tcp "$http_port" "another port: PBX_HTTP_PORT=$((http_port + 10)) make pbx"
need tcp "${audiosocket##*:}" "is another offhook running? Another port: media.audiosocket.bind in $config"
need tcp "${pages##*:}" "is another offhook running? Another port: http.bind in $config"
[ -z "$busy" ] || exit 1

directory=$(mktemp -d -t offhook-pbx-XXXXXX)
export OFFHOOK_STATE=${OFFHOOK_STATE:-$directory}
asterisk=
engine=
stop() {
  trap - EXIT
  # Behind a pipe Ctrl-C ends its reader as well, and what nobody reads must not end this before it has cleared away.
  trap '' PIPE
  # A second Ctrl-C ends the calls that still run.
  printf '\nStopping. Calls that run may finish; a second Ctrl-C ends them.\n' || true
  trap '[ -z "$engine" ] || kill "$engine" 2>/dev/null || true' INT TERM HUP
  # The engine first: it says goodbye to its calls while Asterisk still stands.
  for child in $engine $asterisk; do
    kill "$child" 2>/dev/null || true
    while kill -0 "$child" 2>/dev/null; do wait "$child" 2>/dev/null || true; done
  done
  rm -rf "$directory"
  printf 'Stopped.\n' || true
}
trap stop EXIT
# Both run in sessions of their own: Ctrl-C reaches this script only, and `stop` keeps the order.
trap 'exit 0' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

LAB_ARI_PASSWORD=$ARI_PASSWORD LAB_ARI_USER=$ARI_USERNAME LAB_BIND=$bind LAB_HTTP_PORT=$http_port \
  LAB_SIP_PORT=$sip_port LAB_PHONE_PASSWORD=$phone_password LAB_AUDIOSOCKET=$audiosocket \
  setsid tests/lab/asterisk.sh run "$directory" </dev/null >"$directory/console" 2>&1 &
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
  lab_die "Asterisk did not start"
}

setsid "$offhook" run --config "$config" </dev/null &
engine=$!
# ready: asks offhook whether it takes calls, and leaves what it says in `answer`.
ready() {
  answer=
  { exec 3<>"/dev/tcp/${pages%:*}/${pages##*:}"; } 2>/dev/null || return 1
  printf 'GET /ready HTTP/1.0\r\nHost: %s\r\n\r\n' "$pages" >&3
  answer=$(cat <&3)
  exec 3>&-
  [[ $answer == HTTP/1.?\ 200* ]]
}
until ready; do
  kill -0 "$engine" 2>/dev/null || {
    code=0
    wait "$engine" || code=$?
    exit "$code"
  }
  [ "$SECONDS" -lt 30 ] || {
    lab_say "${answer##*$'\r\n'}"
    lab_die "offhook does not become ready; what it lacks is above"
  }
  sleep 0.1
done

# written SECTION NAME: whether the configuration has an entry of this name in the section, as far as it is written plainly.
written() {
  awk -v section="$1:" -v name="  $2:" '
    /^[a-z]/ { inside = $1 == section }
    inside && index($0, name) == 1 { found = 1 }
    END { exit !found }' "$config"
}
dial="7000  the default agent"
# offer EXTENSION WORDS
offer() { dial+=$'\n'"         $1  $2"; }
if written contexts support; then
  offer 7001 "support, by Stasis(offhook,support)"
  offer 7003 "support with another greeting, by RTP"
  ! written providers scripted || offer 7004 "support by the provider scripted: a script, without a model"
fi
! written contexts sales || offer 7002 "sales, by AI_CONTEXT"
! written contexts demo_mcp || offer 7005 "demo_mcp, with a tool of an MCP server"
! grep -q '^ *audiosocket_id: "0ff40001"' "$config" || offer 7080 "by AudioSocket(), without ARI: no caller's name, no transfer"
offer 7100 "the default agent as in FreePBX"
! written contexts support || offer 7101 "support as in FreePBX"
! written contexts sales || offer 7102 "sales as in FreePBX"

cat <<T

offhook and $(tests/lab/asterisk.sh version) are up, with the contexts of $config.

  Softphone account   user softphone   password $phone_password   server $bind:$sip_port (UDP)
  Dial   $dial
         desk  a human, 1700 Hz                    echo  your own voice
  offhook's page      http://$pages/          Live: the call while it lasts
                      http://$pages/history   History: what was said in it, and why it ended
                      http://$pages/system    System: whether Asterisk is connected
  Asterisk's console  tests/lab/asterisk.sh cli $directory core show channels
  Its log             $directory/log/messages

$([ "$OFFHOOK_STATE" != "$directory" ] || echo "Records of the calls go with Ctrl-C; OFFHOOK_STATE=FOLDER make pbx keeps them.")
$([ "$bind" != 127.0.0.1 ] || echo "For a softphone on another machine: PBX_BIND=<this machine's address> make pbx. ")Ctrl-C stops both.

T
# Whichever ends first ends the other.
code=0
wait -n -p ended "$asterisk" "$engine" || code=$?
[ "$ended" = "$engine" ] || lab_die "Asterisk has ended; its last words: $(tail -n 3 "$directory/console")"
exit "$code"
