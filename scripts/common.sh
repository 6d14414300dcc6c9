# Sourced by the other scripts: where the repository is, and how its programs are built.
# shellcheck shell=bash

# The root of the repository, from wherever a script is called.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build/release
# shellcheck disable=SC2034  # the scripts that source this use it
BIN=$BUILD/bin
# Tests start Python thousands of times: what it has compiled is kept.
unset PYTHONDONTWRITEBYTECODE

# build TARGET… - builds these targets of the release preset; `all` builds everything. Shows one line that is
# rewritten on a terminal, else one for each tenth, and the compiler's words when it fails.
build() {
  local log=$BUILD/build.log started=$SECONDS told=0
  mkdir -p "$BUILD"
  echo "build: $* (the first time takes some minutes)" >&2
  if ! (cd "$ROOT" && cmake --preset release) >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: the configuration failed; CMake's words are above" >&2
    return 1
  fi
  local line percent
  if ! (
    set -o pipefail
    NINJA_STATUS='[%p] ' cmake --build "$BUILD" --target "$@" 2>&1 | tee -a "$log" |
      while IFS= read -r line; do
        percent=${line%%]*}
        if [[ $line != '['*%']'* ]]; then continue; fi
        percent=${percent#[}
        if [[ -t 2 ]]; then
          printf '\rbuild: %s' "$percent" >&2
        elif ((${percent%\%} / 10 > told)); then
          told=$((${percent%\%} / 10))
          echo "build: $((told * 10)) % after $((SECONDS - started)) s" >&2
        fi
      done
  ); then
    [[ ! -t 2 ]] || echo >&2
    grep -v '^\[' "$log" | tail -n 60 >&2
    echo "build: failed; all of its output is in $log" >&2
    return 1
  fi
  [[ ! -t 2 ]] || printf '\r' >&2
  echo "build: done in $((SECONDS - started)) s" >&2
}
