#!/bin/bash
# Photos -> random_resized_crop 224 -> flip -> uint8 NHWC, batch 64, with one worker of one thread, over two epochs (the
# second reads by the seek entries that the first made), against the yardstick: libjpeg-turbo decoding the same files
# fully on one thread. The two are measured in turns, as a
# machine's speed drifts, and compared by their medians.
#
#   bench/photos.sh [--rounds N] [--epochs N] [FOLDER]     FOLDER: JPEG files; default: 1,000 synthetic ones
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

rounds=5
epochs=2
folder=
while (($#)); do
  case $1 in
    --rounds)
      rounds=$2
      shift
      ;;
    --epochs)
      epochs=$2
      shift
      ;;
    -h | --help)
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) folder=$1 ;;
  esac
  shift
done

[[ -x $BIN/bulkhead && -x $BIN/bulkheadd ]] || "$ROOT/scripts/build.sh"
work=$BUILD/../bench-photos
rm -rf "$work/run"
mkdir -p "$work/run"
if [[ -z $folder ]]; then
  folder=$work/synthetic/folder
  [[ -f $work/synthetic/tfrecord.yaml ]] || "$BIN/bulkhead" synth "$work/synthetic" --force --count 1000
fi
# A folder without sub-folders has no classes.
"$BIN/bulkhead" stream "$folder" --print-spec | sed "s/^epochs: .*/epochs: $epochs/" >"$work/run/spec.yaml"

for ((round = 1; round <= rounds; round++)); do
  "$BIN/bulkhead" bench decode-limit "$folder" --threads 1 --repeat "$epochs" --json >"$work/run/limit-$round.json"
  # An empty cache each time: first_batch_seconds is a cold start's.
  "$BIN/bulkhead" bench run --spec "$work/run/spec.yaml" --workers 1 --threads 1 --no-digest \
    --cache-dir "$work/run/cache-$round" --json >"$work/run/run-$round.json"
  printf 'round %d of %d\n' "$round" "$rounds" >&2
done
/usr/bin/python3 "$ROOT/bench/summarize_photos.py" "$work/run"
