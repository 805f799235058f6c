#!/usr/bin/env bash
# deployment.sh: everything of the deployment files that can be tried on one machine, and what that leaves open.
#
#   tests                     hadolint and Docker Compose itself read their files, systemd-analyze the unit, promtool the alerts,
#                             nginx what the guide has for it; what the containers start carries a call
#   images.sh, systemd.sh     as root: the file systems of the images, confined as containers are, and the unit on a systemd
#                             of its own, each with a call
#
# It ends with 0 where nothing failed, and says what was not tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/lab/tree.sh

cargo=${CARGO:-cargo}
failed=() open=("docker build and docker run: no image is pulled or started" "Grafana, Alertmanager")
part() {
  local what=$1
  shift
  lab_say "
=== $what"
  "$@" || failed+=("$what")
}

part 'the files, read by their own tools' "$cargo" test --locked --test house deployment::
part 'alerts and dashboards' "$cargo" test --locked --test real prometheus:: -- --skip load::
part 'the page behind nginx' "$cargo" test --locked --test real web::behind_nginx::
if [ "$(id -u)" = 0 ]; then
  tests/lab/setup.sh deployment
  part 'the images, without Docker' tests/lab/images.sh
  # A systemd of its own needs a control group of its own.
  if [ -w /sys/fs/cgroup ]; then
    part 'the unit, on a systemd' tests/lab/systemd.sh
  else
    open+=("the unit on a systemd: this machine lends no control groups (systemd-analyze has read it)")
  fi
else
  open+=("the images' file systems and the unit on a systemd: only root can make them")
fi

lab_say "
Not tried here:"
for one in "${open[@]}"; do lab_say "  $one"; done
[ ${#failed[@]} = 0 ] || { printf -v told '%s, ' "${failed[@]}"; lab_die "failed: ${told%, }"; }
lab_say "Everything else is as it should be."
