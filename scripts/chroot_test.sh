#!/bin/bash
# Does a fresh clone work on bare Debian 12? Makes such a root, clones HEAD into it, runs quickstart.sh and test.sh
# there, and prints how long each took. Needs root, mmdebstrap and git. Commit first: uncommitted changes stay out.
#
#   scripts/chroot_test.sh [--sources FILE] [--keep] [--quickstart-only] [--user] FOLDER
#
# FOLDER must not exist; it is removed afterwards unless --keep is given.
# --user runs both as a normal user who may use sudo, from a clone that is that user's own; else root runs them.
# --sources FILE is the apt sources file of the new root; default: this machine's Debian sources.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sources=/etc/apt/sources.list.d/debian.sources
keep=false
tests=true
as_user=false
folder=
while (($#)); do
  case $1 in
    --sources)
      sources=$2
      shift
      ;;
    --keep) keep=true ;;
    --quickstart-only) tests=false ;;
    --user) as_user=true ;;
    -h | --help)
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) folder=$1 ;;
  esac
  shift
done
if [[ -z $folder || -e $folder ]]; then
  echo "chroot_test: name a folder that does not exist yet; see --help" >&2
  exit 2
fi
if ((EUID != 0)) || ! command -v mmdebstrap >/dev/null; then
  echo "chroot_test: needs root and mmdebstrap" >&2
  exit 1
fi

# Called by the trap below.
# shellcheck disable=SC2317
clean_up() {
  local mounted
  for mounted in dev/pts dev/shm dev proc; do
    ! mountpoint -q "$folder/$mounted" || umount -l "$folder/$mounted"
  done
  $keep || rm -rf --one-file-system "$folder"
}
trap clean_up EXIT

# timed NAME COMMAND… - runs a command and remembers how long it took.
times=()
timed() {
  local name=$1 started=$SECONDS
  shift
  echo "chroot_test: $name"
  "$@"
  times+=("$name: $((SECONDS - started)) s")
}

timed "root" mmdebstrap --quiet --variant=minbase bookworm "$folder" "$sources"
# What this machine needs to reach its packages, the new root needs as well.
for file in /etc/resolv.conf /etc/hosts; do
  [[ ! -f $file ]] || cp -L "$file" "$folder/etc/"
done
for file in /etc/apt/apt.conf.d/*; do
  ! grep -qsE '^ *Acquire::' "$file" || cp "$file" "$folder/etc/apt/apt.conf.d/"
done
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
mount --make-rslave "$folder/dev"

in_root() { chroot "$folder" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
as_tester() {
  chroot --userspec=tester:tester "$folder" /usr/bin/env -i HOME=/home/tester USER=tester PATH=/usr/bin:/bin "$@"
}

run=in_root
clone=/bulkhead
if $as_user; then
  run=as_tester
  clone=/home/tester/bulkhead
  timed "sudo" in_root sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qqy install sudo >/dev/null'
  in_root useradd --create-home tester
  echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$folder/etc/sudoers.d/tester"
  chmod 440 "$folder/etc/sudoers.d/tester"
fi
git clone --quiet --no-hardlinks "$ROOT" "$folder$clone"
! $as_user || in_root chown -R tester:tester "$clone"

timed "quickstart (packages, build, first batches)" "$run" "$clone/scripts/quickstart.sh"
if $tests; then timed "test.sh" "$run" "$clone/scripts/test.sh"; fi
printf 'chroot_test: %s\n' "${times[@]}"
