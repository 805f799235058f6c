#!/usr/bin/env bash
# A small real Asterisk out of the lab's tree (provision.sh), everything of it inside one directory.
#
#   asterisk.sh run DIR            write the configuration and run in the foreground, without root
#   asterisk.sh deployed DIR       the same as deploy/asterisk/start.sh does it; its ASTERISK_NAME instead of these
#   asterisk.sh cli DIR COMMAND…   one command on that instance's console
#   asterisk.sh version
#
# The configuration is deploy/asterisk/etc and, where they differ, tests/lab/etc, with @NAME@ filled in from LAB_NAME
# below; it includes the project's own dialplan/ files. Tests (tests/kit/asterisk.rs) and `make pbx` both start here.
# Several instances may run side by side when their ports differ.
#
#   LAB_ARI_PASSWORD    required; the ARI user is LAB_ARI_USER (offhook)
#   LAB_HTTP_PORT LAB_SIP_PORT LAB_RTP_FIRST LAB_RTP_LAST     ports
#   LAB_TLS_PORT        ARI over TLS as well, with LAB_TLS_CERTIFICATE and LAB_TLS_KEY, PEM files
#   LAB_AUDIOSOCKET     host:port where offhook accepts AudioSocket()
#   LAB_PHONE_PASSWORD  for the SIP account `softphone`; without it nobody can register
#   LAB_WITHOUT         modules that are not loaded, such as `chan_rtp chan_audiosocket`
#   LAB_ARI_READ_ONLY   yes: the ARI user may look, but not act
#   LAB_BIND            address for SIP; other than 127.0.0.1 there are no callers without account
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tree.sh"
. "$here/../../deploy/asterisk/configuration.sh"

[ $# -ge 1 ] || lab_die "usage: asterisk.sh run DIR | deployed DIR | cli DIR COMMAND… | version"
action=$1
tree_command "$OFFHOOK_TREE" sbin/asterisk ||
  lab_die "no Asterisk in $OFFHOOK_TREE; run: make setup"
if [ "$action" = version ]; then exec "${tree_command[@]}" -V; fi

mkdir -p "${2:?a directory is needed}"
directory=$(cd "$2" && pwd)
shift 2

write_configuration() {
  : "${LAB_ARI_PASSWORD:?is required: no password is built in}"
  LAB_ARI_USER=${LAB_ARI_USER:-offhook}
  LAB_HTTP_PORT=${LAB_HTTP_PORT:-8088}
  LAB_SIP_PORT=${LAB_SIP_PORT:-5060}
  LAB_RTP_FIRST=${LAB_RTP_FIRST:-12000}
  LAB_RTP_LAST=${LAB_RTP_LAST:-12999}
  LAB_AUDIOSOCKET=${LAB_AUDIOSOCKET:-127.0.0.1:9092}
  LAB_BIND=${LAB_BIND:-127.0.0.1}
  # Nobody knows this one, so nobody can register.
  LAB_PHONE_PASSWORD=${LAB_PHONE_PASSWORD:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
  LAB_DIR=$directory
  LAB_SPOOL=$directory/spool
  LAB_MODULES=$(tree_libraries "$OFFHOOK_TREE")/asterisk/modules
  LAB_REPOSITORY=$(cd "$here/../.." && pwd)

  umask 077 # the configuration holds passwords
  asterisk_directory "$directory" "$OFFHOOK_TREE/usr/share/asterisk"
  asterisk_fill LAB "$here/../../deploy/asterisk/etc" "$directory/etc"
  asterisk_fill LAB "$here/etc" "$directory/etc"
  [ "$LAB_BIND" = 127.0.0.1 ] || rm "$directory/etc/pjsip_anonymous.conf"
  [ -n "${LAB_TLS_PORT:-}" ] || rm "$directory/etc/http_tls.conf"
  for name in ${LAB_WITHOUT:-}; do sed -i "/^load = $name\.so/d" "$directory/etc/modules.conf"; done
  # What somebody else has written of the same names, such as `offhook init`.
  [ ! -d "$directory/settings" ] || cp "$directory"/settings/*.conf "$directory/etc/"
  # The user's section is the last one.
  [ "${LAB_ARI_READ_ONLY:-no}" = no ] || printf 'read_only = yes\n' >>"$directory/etc/ari.conf"
}

case $action in
  run)
    write_configuration
    cd "$directory"
    exec "${tree_command[@]}" -C "$directory/etc/asterisk.conf" -f
    ;;
  deployed)
    export ASTERISK_DIR=$directory ASTERISK_SPOOL=$directory/spool ASTERISK_SHARED=$OFFHOOK_TREE/usr/share/asterisk
    ASTERISK_MODULES=$(tree_libraries "$OFFHOOK_TREE")/asterisk/modules
    export ASTERISK_MODULES
    exec "$here/../../deploy/asterisk/start.sh" "${tree_command[@]}"
    ;;
  cli) exec "${tree_command[@]}" -C "$directory/etc/asterisk.conf" -rx "$*" ;;
  *) lab_die "unknown: $action" ;;
esac
