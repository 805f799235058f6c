#!/usr/bin/env bash
# tied.sh PIDFILE COMMAND…: runs COMMAND until it ends, or until this script's standard input ends.
#
# A test holds the other end of that pipe. However the test dies, the pipe closes, and what it
# started is stopped: first politely, then, after two seconds, for good.
set -u
ulimit -c 0 # a core file would land in the checkout
pidfile=$1
shift
exec 3<&0
"$@" 3<&- </dev/null &
child=$!
echo "$child" >"$pidfile.new" && mv "$pidfile.new" "$pidfile"
{
  cat <&3
  kill "$child"
  for _ in $(seq 20); do kill -0 "$child" || exit 0; sleep 0.1; done
  kill -9 "$child"
} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$child"
code=$?
kill "$watcher" 2>/dev/null
exit "$code"
