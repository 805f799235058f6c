# Sourced by start.sh beside it and by the tests' lab: an Asterisk whose files are all in one directory.
# shellcheck shell=bash

# asterisk_fill PREFIX FOLDER TO: writes the *.conf of a folder, @NAME@ replaced by the variable PREFIX_NAME.
asterisk_fill() {
  local prefix=$1 folder=$2 to=$3 template name variable value text
  for template in "$folder"/*.conf; do
    text=$(<"$template")
    for name in $(grep -o '@[A-Z_]*@' "$template" | sort -u); do
      variable=${prefix}_${name//@/}
      # A semicolon would begin a comment.
      value=${!variable-}
      value=${value//;/\\;}
      text=${text//"$name"/"$value"}
    done
    printf '%s\n' "$text" >"$to/${template##*/}"
  done
}

# asterisk_directory DIR SHARED: the folders that asterisk.conf names, with Debian's sounds out of SHARED, and what
# complains in the log when it is missing and needs nothing in it.
asterisk_directory() {
  local directory=$1 shared=$2 name
  mkdir -p "$directory"/{etc,data/sounds,data/moh,spool,run,log}
  ln -sfn "$shared/documentation" "$directory/data/documentation"
  ln -sfn "$shared/rest-api" "$directory/data/rest-api"
  for name in "$shared"/sounds/en_*; do ln -sfn "$name" "$directory/data/sounds/en"; done
  ln -sfn "$directory/data/sounds/en/demo-instruct.gsm" "$directory/data/moh/music.gsm"
  for name in acl stasis manager pjproject websocket_client chan_websocket; do : >"$directory/etc/$name.conf"; done
  for name in ccss cdr cel features udptl queues queuerules cli cli_permissions dsp; do
    printf '[general]\n' >"$directory/etc/$name.conf"
  done
}
