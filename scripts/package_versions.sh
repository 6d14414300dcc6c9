#!/bin/bash
# The Python client's tests with other versions of a package, each in an environment of its own, which takes a package
# index and some minutes each. They are not part of scripts/test.sh.
#
#   scripts/package_versions.sh protobuf [VERSION...]     default: 3.20.3 to the newest
#   scripts/package_versions.sh jax [VERSION...]          default: 0.4.35 to the newest
#
# $PYTHON: the interpreter; $TESTS: which of them, as pytest's -k takes it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package=${1:-}
shift || true
case $package in
  protobuf)
    tests=$ROOT/client/python/tests
    # 4.21 is what protobuf 3.21 is called in Python.
    versions=(3.20.3 4.21.12 4.25.9 5.29.6 6.33.6 newest)
    ;;
  jax)
    tests=$ROOT/client/python/tests_frameworks/jax_tests
    versions=(0.4.35 0.6.2 newest)
    ;;
  *)
    echo "package_versions: name one of protobuf and jax" >&2
    exit 2
    ;;
esac
(($# == 0)) || versions=("$@")
export BULKHEAD_BIN_DIR=${BULKHEAD_BIN_DIR:-$BIN} BULKHEAD_SOURCE_DIR=$ROOT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
for version in "${versions[@]}"; do
  environment=$work/$version
  "${PYTHON:-python3}" -m venv "$environment"
  [[ $version == newest ]] && requirement=$package || requirement=$package==$version
  "$environment/bin/pip" install -q "$requirement" grpcio numpy protobuf pytest pyyaml
  "$environment/bin/pip" list 2>/dev/null | grep -E '^(protobuf|grpcio|numpy|jax) '
  "$environment/bin/python" -m pytest -q -p no:cacheprovider "$tests" -k "${TESTS:-}" || failed+=("$version")
done
((${#failed[@]} == 0)) || {
  echo "failed with $package ${failed[*]}" >&2
  exit 1
}
