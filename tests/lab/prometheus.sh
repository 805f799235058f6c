#!/usr/bin/env bash
# A real Prometheus with the configuration of grafana/prometheus, everything of it inside one directory.
#
#   prometheus.sh run DIR PORT TARGET   in the foreground, on 127.0.0.1:PORT; TARGET (host:port) in the place of offhook's
#   prometheus.sh tool ARGUMENT…        promtool of the same package
#
# setup.sh unpacks the package; nothing of it is installed on the machine, and no service is started.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tree.sh"

programs=${OFFHOOK_PROMETHEUS:-${CARGO_TARGET_DIR:-$here/../../target}/prometheus}/usr/bin
[ -x "$programs/prometheus" ] || lab_die "no Prometheus in $programs; run: make setup"

case ${1:-} in
  tool)
    shift
    exec "$programs/promtool" "$@"
    ;;
  run)
    directory=${2:?a directory} port=${3:?a port} target=${4:?host:port of the engine}
    mkdir -p "$directory"
    cp "$here"/../../grafana/prometheus/alerts.yml "$directory"
    # The target's address is all that is changed.
    sed "s|127\.0\.0\.1:15000|$target|" "$here"/../../grafana/prometheus/prometheus.yml >"$directory/prometheus.yml"
    cd "$directory"
    exec "$programs/prometheus" --config.file=prometheus.yml --storage.tsdb.path=data \
      --web.listen-address="127.0.0.1:$port" --log.level=warn
    ;;
  *) lab_die "usage: prometheus.sh run DIR PORT TARGET | tool ARGUMENT…" ;;
esac
