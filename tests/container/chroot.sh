#!/bin/sh
# chroot.sh DIRECTORY [COMMAND...]: the steps of .devcontainer/Dockerfile without Docker, by root: each
# stage is a Debian of its own in DIRECTORY, made by mmdebstrap. It ends as `docker run` does, with the
# training; or runs COMMAND in the stage with the build instead.
#
# It knows FROM, RUN, WORKDIR, COPY, ENTRYPOINT and CMD as far as that file has them.
set -eu
file=.devcontainer/Dockerfile
mkdir -p "$1"
top=$(readlink -f "$1")
shift
stage='' folder='' entry='' command='' stages=0

inside() {  # inside STAGE COMMAND...: with a PATH as containers have it
  root=$top/$1
  shift
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    unshare --mount --pid --fork --kill-child sh -c '
      mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
      exec chroot "$0" "$@"' "$root" "$@"
}

from() {  # from IMAGE [as NAME]
  stages=$((stages + 1))
  stage=${3:-stage$stages}
  rm -rf "${top:?}/$stage"
  if [ -d "$top/$1" ]; then  # a stage before it, with its folder
    cp -a "$top/$1" "$top/$stage"
    return
  fi
  folder='' suite=${1#debian:}
  mmdebstrap --quiet --variant=minbase "${suite%-slim}" "$top/$stage"
  cp -L /etc/resolv.conf "$top/$stage/etc/"
}

copy() {  # copy [--from=STAGE] SOURCE TARGET
  case $1 in
  --from=*) cp -a "$top/${1#--from=}$2" "$top/$stage$3" ;;
  *) git ls-files -z | tar --null --files-from=- -c | tar -C "$top/$stage$folder" -x ;;
  esac
}

# A word and the rest of each instruction, its lines joined.
sed -e '/^ *#/d' -e ':more' -e '/\\$/{N;s/\\\n//;b more' -e '}' -e '/^$/d' $file >"$top/steps"
while read -r word rest <&3; do
  printf '%s %s\n' "$word" "$rest"
  case $word in
  FROM) from $rest ;;
  RUN) inside "$stage" sh -c "cd '$folder/' && $rest" ;;
  WORKDIR) folder=$rest && mkdir -p "$top/$stage$folder" ;;
  COPY) copy $rest ;;
  ENTRYPOINT) entry=$(echo "$rest" | tr -d '[],"') ;;
  CMD) command=$(echo "$rest" | tr -d '[],"') ;;
  *) echo "chroot.sh does not know $word"; exit 1 ;;
  esac
done 3<"$top/steps"
if [ $# -gt 0 ]; then
  inside build sh -c 'cd /nanofsdp && "$@"' sh "$@"
else
  inside "$stage" $entry $command
fi
