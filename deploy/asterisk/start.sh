#!/usr/bin/env bash
# start.sh [COMMAND…]: writes Asterisk's configuration and becomes Asterisk. All that is written is below
# ASTERISK_DIR and ASTERISK_SPOOL, so everything else can be read-only; root is not needed.
#
#   ASTERISK_ARI_PASSWORD      required; the user is `offhook`
#   ASTERISK_PHONE_PASSWORD    required; of the SIP accounts `softphone` and `reception`
#   ASTERISK_BIND              address for SIP and its audio (127.0.0.1: telephones on this machine only)
#   ASTERISK_EXTERNAL_ADDRESS  what telephones and trunks outside of the local networks reach it by
#   ASTERISK_SIP_PORT ASTERISK_HTTP_PORT ASTERISK_RTP_FIRST ASTERISK_RTP_LAST
#   ASTERISK_AUDIOSOCKET       where AudioSocket() finds offhook (127.0.0.1:9092)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/configuration.sh"

: "${ASTERISK_ARI_PASSWORD:?is required, for ari.conf: no password is built in}"
: "${ASTERISK_PHONE_PASSWORD:?is required, for the SIP accounts: no password is built in}"
case $ASTERISK_ARI_PASSWORD$ASTERISK_PHONE_PASSWORD in
  *[[:cntrl:]]*) echo "start.sh: a password has a line break or another control character" >&2; exit 1 ;;
esac
ASTERISK_ARI_USER=offhook
ASTERISK_BIND=${ASTERISK_BIND:-127.0.0.1}
ASTERISK_SIP_PORT=${ASTERISK_SIP_PORT:-5060}
ASTERISK_HTTP_PORT=${ASTERISK_HTTP_PORT:-8088}
ASTERISK_RTP_FIRST=${ASTERISK_RTP_FIRST:-12000}
ASTERISK_RTP_LAST=${ASTERISK_RTP_LAST:-12999}
ASTERISK_AUDIOSOCKET=${ASTERISK_AUDIOSOCKET:-127.0.0.1:9092}
ASTERISK_DIR=${ASTERISK_DIR:-/run/asterisk}
ASTERISK_SPOOL=${ASTERISK_SPOOL:-/var/spool/asterisk}
ASTERISK_DIALPLAN=${ASTERISK_DIALPLAN:-$here/../../dialplan}
ASTERISK_SHARED=${ASTERISK_SHARED:-/usr/share/asterisk}
if [ -z "${ASTERISK_MODULES:-}" ]; then
  for ASTERISK_MODULES in /usr/lib/*-linux-gnu*/asterisk/modules; do :; done
fi

umask 077 # the configuration holds passwords
asterisk_directory "$ASTERISK_DIR" "$ASTERISK_SHARED"
asterisk_fill ASTERISK "$here/etc" "$ASTERISK_DIR/etc"
if [ -z "${ASTERISK_EXTERNAL_ADDRESS:-}" ]; then rm "$ASTERISK_DIR/etc/pjsip_nat.conf"; fi
# Asterisk needs none of them but in its files.
unset ASTERISK_ARI_PASSWORD ASTERISK_PHONE_PASSWORD

[ $# -gt 0 ] || set -- asterisk
cd "$ASTERISK_DIR"
exec "$@" -C "$ASTERISK_DIR/etc/asterisk.conf" -f
