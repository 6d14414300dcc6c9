#!/bin/bash
# Fuzzes the JPEG decoder with libFuzzer, under AddressSanitizer and UndefinedBehaviorSanitizer: every decode is
# compared with libjpeg-turbo's. Needs clang, which it installs.
#
#   scripts/fuzz_jpeg.sh SECONDS [FOLDER]        FOLDER: JPEG files to begin with
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if (($# < 1)); then
  echo "usage: scripts/fuzz_jpeg.sh SECONDS [FOLDER]" >&2
  exit 2
fi
"$ROOT/scripts/setup.sh" --fuzz
readonly FUZZ=$ROOT/build/libfuzzer
cmake -S "$ROOT" -B "$FUZZ" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DBULKHEAD_SANITIZE=address,undefined,fuzzer-no-link -DBULKHEAD_LIBFUZZER=ON \
  -DBULKHEAD_PRECOMPILED_HEADERS=OFF  # they hold messages, which the decoder does without
cmake --build "$FUZZ" --target bulkhead-libfuzzer-jpeg
mkdir -p "$FUZZ/corpus"
exec "$FUZZ/bin/bulkhead-libfuzzer-jpeg" -max_total_time="$1" -max_len=60000 -print_final_stats=1 "$FUZZ/corpus" "${@:2}"
