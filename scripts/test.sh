#!/bin/bash
# From a fresh clone to test results: installs what is missing, builds everything, runs every test.
# Arguments go to ctest: scripts/test.sh -R sampler, scripts/test.sh -L unit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/setup.sh" --test
build all
# Debian's own Python has the packages that setup.sh installs.
# Half of them wait for processes most of the time.
ctest --test-dir "$BUILD" --output-on-failure --parallel "$((2 * $(nproc)))" "$@"
