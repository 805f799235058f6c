#!/usr/bin/env bash
# A small real Asterisk out of the lab's tree (provision.sh), everything of it inside one directory.
#
#   asterisk.sh run DIR            write the configuration and run in the foreground, without root
#   asterisk.sh cli DIR COMMAND…   one command on that instance's console
#   asterisk.sh version
#
# The configuration is tests/lab/etc with @NAME@ filled in from LAB_NAME below; it includes the
# project's own dialplan/ files. Tests (tests/support/asterisk.rs) and `make pbx` both start here.
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

[ $# -ge 1 ] || lab_die "usage: asterisk.sh run DIR | cli DIR COMMAND… | version"
action=$1
tree_command "$OFFHOOK_TREE" sbin/asterisk ||
  lab_die "no Asterisk in $OFFHOOK_TREE; run: make setup"
if [ "$action" = version ]; then exec "${tree_command[@]}" -V; fi

mkdir -p "${2:?a directory is needed}"
directory=$(cd "$2" && pwd)
shift 2

fill() {
  local name script=
  for name in HTTP_PORT SIP_PORT RTP_FIRST RTP_LAST ARI_USER ARI_PASSWORD AUDIOSOCKET PHONE_PASSWORD BIND \
    TLS_PORT TLS_CERTIFICATE TLS_KEY ARI_READ_ONLY DIR MODULES REPOSITORY; do
    local variable=LAB_$name
    script+="s|@$name@|${!variable:-}|g;"
  done
  sed "$script"
}

write_configuration() {
  : "${LAB_ARI_PASSWORD:?is required: no password is built in}"
  LAB_ARI_USER=${LAB_ARI_USER:-offhook}
  LAB_ARI_READ_ONLY=${LAB_ARI_READ_ONLY:-no}
  LAB_HTTP_PORT=${LAB_HTTP_PORT:-8088}
  LAB_SIP_PORT=${LAB_SIP_PORT:-5060}
  LAB_RTP_FIRST=${LAB_RTP_FIRST:-12000}
  LAB_RTP_LAST=${LAB_RTP_LAST:-12999}
  LAB_AUDIOSOCKET=${LAB_AUDIOSOCKET:-127.0.0.1:9092}
  LAB_BIND=${LAB_BIND:-127.0.0.1}
  # Nobody knows this one, so nobody can register.
  LAB_PHONE_PASSWORD=${LAB_PHONE_PASSWORD:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
  LAB_DIR=$directory
  LAB_MODULES=$(tree_libraries "$OFFHOOK_TREE")/asterisk/modules
  LAB_REPOSITORY=$(cd "$here/../.." && pwd)

  local shared=$OFFHOOK_TREE/usr/share/asterisk template name
  umask 077 # the configuration holds passwords
  mkdir -p "$directory"/{etc,data/sounds,data/moh,spool,run,log}
  ln -sfn "$shared/documentation" "$directory/data/documentation"
  ln -sfn "$shared/rest-api" "$directory/data/rest-api"
  for name in "$shared"/sounds/en_*; do ln -sfn "$name" "$directory/data/sounds/en"; done
  ln -sfn "$directory/data/sounds/en/demo-instruct.gsm" "$directory/data/moh/music.gsm"
  for template in "$here"/etc/*.conf; do
    name=${template##*/}
    [ "$name" = pjsip_anonymous.conf ] && [ "$LAB_BIND" != 127.0.0.1 ] && continue
    [ "$name" = http_tls.conf ] && [ -z "${LAB_TLS_PORT:-}" ] && continue
    fill <"$template" >"$directory/etc/$name"
  done
  for name in ${LAB_WITHOUT:-}; do sed -i "/^load = $name\.so/d" "$directory/etc/modules.conf"; done
  # Parts that complain in the log when a file of theirs is missing, and need nothing in it.
  for name in acl stasis manager pjproject websocket_client chan_websocket; do : >"$directory/etc/$name.conf"; done
  for name in ccss cdr cel features udptl queuerules cli cli_permissions dsp; do
    printf '[general]\n' >"$directory/etc/$name.conf"
  done
}

case $action in
  run)
    write_configuration
    cd "$directory"
    exec "${tree_command[@]}" -C "$directory/etc/asterisk.conf" -f
    ;;
  cli) exec "${tree_command[@]}" -C "$directory/etc/asterisk.conf" -rx "$*" ;;
  *) lab_die "unknown: $action" ;;
esac
