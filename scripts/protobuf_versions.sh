#!/bin/bash
# The Python client's tests with other versions of protobuf, each in an environment of its own, which takes a package
# index and about two minutes each. They are not part of scripts/test.sh.
#
#   scripts/protobuf_versions.sh [VERSION...]     default: 3.20.3 to the newest; $PYTHON: the interpreter;
#                                                 $TESTS: which of them, as pytest's -k takes it
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=${PYTHON:-python3}
# 4.21 is what protobuf 3.21 is called in Python.
(($#)) || set -- 3.20.3 4.21.12 4.25.9 5.29.6 6.33.6 newest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
for version; do
  environment=$work/$version
  "$python" -m venv "$environment"
  [[ $version == newest ]] && requirement=protobuf || requirement=protobuf==$version
  "$environment/bin/pip" install -q "$requirement" grpcio numpy pytest pyyaml
  "$environment/bin/pip" list 2>/dev/null | grep -E '^(protobuf|grpcio|numpy) '
  "$environment/bin/python" -m pytest -q -p no:cacheprovider "$ROOT/client/python/tests" -k "${TESTS:-}" ||
    failed+=("$version")
done
((${#failed[@]} == 0)) || {
  echo "failed with protobuf ${failed[*]}" >&2
  exit 1
}
