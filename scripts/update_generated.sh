#!/bin/bash
# Writes what is generated from the declarations of options and the .proto files and kept in the repository: the tables of options in
# docs/spec.md and docs/stages, the JSON Schema of specs, the Python package's descriptors, limits of options and builder, the API page, and the page
# of mistakes. Tests fail while one of them is stale.
#
#   scripts/update_generated.sh [build folder]     default: build/release
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

export BULKHEAD_BUILD_DIR=${1:-$ROOT/build/release}
cmake --build "$BULKHEAD_BUILD_DIR" --target options_json \
  bulkhead bulkheadd bulkhead-worker bulkhead-fetch bulkhead-receive bulkhead_worker_library bulkhead_allocations
for script in client/python/update_descriptors.py scripts/update_option_tables.py scripts/update_spec_schema.py \
  client/python/update_option_limits.py client/python/update_pipeline.py client/python/update_api.py scripts/update_mistakes.py; do
  /usr/bin/python3 "$script"
done
