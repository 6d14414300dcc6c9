#!/bin/bash
# From a fresh clone to batches: installs what is missing, builds, streams.
#
#   scripts/quickstart.sh                          a synthetic set, from TFRecords and from an image list
#   scripts/quickstart.sh photos/                  a folder of images; its sub-folders are classes
#   scripts/quickstart.sh train.txt                an image list: path, then labels
#   scripts/quickstart.sh 'data/train-*.tfrecord'  TFRecords
#   scripts/quickstart.sh 'data/shard-*.tar'       tar shards
#
# Anything more is handed to `bulkhead stream` (see its --help): --feature image=NAME, --batches N …
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 0
fi

# What `bulkhead stream` would refuse after minutes of building.
if (($#)) && [[ $1 != *://* && ! -e $1 ]] && ! compgen -G "$1" >/dev/null; then
  echo "quickstart: there is no file or folder '$1'; the data come first, then options: try --help" >&2
  exit 2
fi

say() { printf '\n== %s\n' "$*"; }

say "packages"
"$ROOT/scripts/setup.sh"
say "build"
"$ROOT/scripts/build.sh"

if (($#)); then
  say "streaming $*"
  "$BIN/bulkhead" stream "$@" # not by exec: it tells how long after its own start the first batch came
  exit
fi

# A set that was cut short is made again; a whole one is kept.
set_dir=$ROOT/build/quickstart/photos
if [[ ! -f $set_dir/tfrecord.yaml ]]; then
  say "drawing 640 photos into $set_dir"
  rm -rf "$set_dir"
  "$BIN/bulkhead" synth "$set_dir" --count 640
fi
for source in tfrecord list; do
  say "streaming $set_dir/$source.yaml"
  "$BIN/bulkhead" stream "$set_dir/$source.yaml"
done
say "a stage that leaks 1 MiB a sample, beside the same without the leak"
"$BIN/bulkhead" bench leak --spec "$set_dir/tfrecord.yaml" --samples 2048 --rounds 1
say "your own data: scripts/quickstart.sh FOLDER | LIST | 'GLOB-OF-TFRECORDS'"
