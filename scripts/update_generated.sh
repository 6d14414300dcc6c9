#!/bin/bash
# Writes what is generated from the declarations of stages and the .proto files and kept in the repository: the tables
# of options in docs/stages.md, the Python builder, and the API page. Tests fail while one of them is stale.
#
#   scripts/update_generated.sh [build folder]     default: build/release
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

export BULKHEAD_BUILD_DIR=${1:-$ROOT/build/release}
cmake --build "$BULKHEAD_BUILD_DIR" --target stages_json
for script in scripts/update_stage_tables.py client/python/update_pipeline.py client/python/update_api.py; do
  /usr/bin/python3 "$script"
done
