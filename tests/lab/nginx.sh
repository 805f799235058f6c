#!/usr/bin/env bash
# nginx.sh DIR: a real nginx with the server that DIR/offhook.conf describes, in the foreground; everything of it inside DIR.
#
# setup.sh unpacks the package; nothing of it is installed on the machine, and no service is started.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tree.sh"

program=${OFFHOOK_NGINX:-${CARGO_TARGET_DIR:-$here/../../target}/nginx}/usr/sbin/nginx
[ -x "$program" ] || lab_die "no nginx in ${program%/usr/sbin/nginx}; run: make setup"
directory=${1:?a directory}
mkdir -p "$directory/temp"
cat >"$directory/nginx.conf" <<C
daemon off;
master_process off;
pid $directory/nginx.pid;
error_log stderr;
events {}
http {
  access_log $directory/access.log;
  client_body_temp_path $directory/temp/body;
  proxy_temp_path $directory/temp/proxy;
  fastcgi_temp_path $directory/temp/fastcgi;
  uwsgi_temp_path $directory/temp/uwsgi;
  scgi_temp_path $directory/temp/scgi;
  include $directory/offhook.conf;
}
C
exec "$program" -e stderr -p "$directory" -c "$directory/nginx.conf"
