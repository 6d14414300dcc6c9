#!/bin/bash
# The Python client with other interpreters: its tests, and streams from the real service, whose workers run Python
# stages in the same interpreter (tests/e2e/stages/test_python_stage.py). Each gets an environment of its own, with the newest NumPy, grpcio and protobuf that
# have wheels for it, which takes a package index and about a minute. They are not part of scripts/test.sh.
#
#   scripts/python_versions.sh [INTERPRETER...]   default: python3.9 to python3.14, those of them on the PATH, or else
#                                                 of pyenv; $TESTS: which of the client's tests, as pytest's -k takes it
#   scripts/python_versions.sh --list             prints the default
#
# The programs are those of $BULKHEAD_BIN_DIR; without it, they are built.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# find_python NAME - prints the interpreter: of the PATH, or else the newest of pyenv's versions, whose name on the PATH fails
# unless the version is chosen. Nothing where there is none.
find_python() {
  local candidate candidates=("$1") versions
  if versions=$(pyenv root 2>/dev/null); then
    mapfile -t -O 1 candidates < <(printf '%s\n' "$versions"/versions/*/bin/"$1" | sort -rV)
  fi
  for candidate in "${candidates[@]}"; do
    if "$candidate" -c '' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

interpreters=("$@")
if (($# == 0)) || [[ $1 == --list ]]; then
  interpreters=()
  for minor in 9 10 11 12 13 14; do
    found=$(find_python "python3.$minor")
    [[ -z $found ]] || interpreters+=("$found")
  done
fi
((${#interpreters[@]})) || {
  echo "python versions: there is no python3.9 to python3.14, neither on the PATH nor of pyenv" >&2
  exit 2
}
if [[ ${1:-} == --list ]]; then
  printf '%s\n' "${interpreters[@]}"
  exit 0
fi
if [[ -z ${BULKHEAD_BIN_DIR:-} ]]; then
  "$ROOT/scripts/build.sh"
  export BULKHEAD_BIN_DIR=$BIN
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
for interpreter in "${interpreters[@]}"; do
  version=$("$interpreter" -c 'import platform; print(platform.python_version())')
  environment=$work/$version
  started=$SECONDS
  "$interpreter" -m venv "$environment"
  "$environment/bin/pip" install -q --only-binary :all: numpy grpcio protobuf pytest pyyaml
  echo "python versions: $version with $("$environment/bin/pip" list --format freeze 2>/dev/null |
    grep -E '^(protobuf|grpcio|numpy)==' | paste -sd ' ')"
  "$environment/bin/python" -m pytest -q -p no:cacheprovider "$ROOT/client/python/tests" -k "${TESTS:-}" ||
    failed+=("$version: client/python/tests")
  "$environment/bin/python" -m pytest -q -p no:cacheprovider "$ROOT/tests/e2e/stages/test_python_stage.py" ||
    failed+=("$version: tests/e2e/stages/test_python_stage.py")
  echo "python versions: $version took $((SECONDS - started)) s"
  rm -rf "$environment"
done
((${#failed[@]} == 0)) || {
  printf 'python versions: failed with %s\n' "${failed[@]}" >&2
  exit 1
}
