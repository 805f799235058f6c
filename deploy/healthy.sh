#!/bin/bash
# Whether offhook's page /live says 200; the image has no curl. OFFHOOK_PAGES: where `http.bind` is, IP:PORT.
set -euo pipefail
pages=${OFFHOOK_PAGES:-127.0.0.1:15000}
exec 3<>"/dev/tcp/${pages%:*}/${pages##*:}"
printf 'GET /live HTTP/1.0\r\nHost: %s\r\n\r\n' "$pages" >&3
IFS= read -r -t 4 status <&3
[[ $status == HTTP/1.?\ 200* ]] || { printf '%s\n' "$status" >&2; exit 1; }
