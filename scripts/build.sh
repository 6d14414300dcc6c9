#!/bin/bash
# Builds the programs into build/release/bin.
#
#   scripts/build.sh              bulkheadd, bulkhead-worker, bulkhead-fetch, bulkhead-receive and bulkhead
#   scripts/build.sh TARGET…      these CMake targets; `all` builds the tests too
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if (($# == 0)); then
  set -- bulkheadd bulkhead-worker bulkhead-fetch bulkhead-receive bulkhead
fi
build "$@"
