#!/bin/bash
# The Python client with the real PyTorch, TensorFlow with Keras, and JAX, on the CPU, each alone and all together in
# one process: makes each environment where it is missing, in build/frameworks, and runs its tests and examples.
#
#   scripts/frameworks.sh              all of them
#   scripts/frameworks.sh torch jax    these
#
# The programs are those of $BULKHEAD_BIN_DIR; without it, they are built.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly TESTS=$ROOT/client/python/tests_frameworks
readonly ENVIRONMENTS=$ROOT/build/frameworks

# prepare NAME - an environment with exactly what its requirements.txt names, each beside its own NumPy and protobuf.
# PyTorch's is 5.5 GB, for it brings CUDA's libraries. Together they are what Debian's PyTorch, which needs a NumPy 1,
# leaves room for: that is also the oldest PyTorch that is tested.
prepare() {
  local environment=$ENVIRONMENTS/$1 wanted=$TESTS/${1}_tests/requirements.txt started=$SECONDS
  if cmp -s "$wanted" "$environment/requirements.txt"; then return 0; fi
  rm -rf "$environment"
  mkdir -p "$ENVIRONMENTS"
  case $1 in
    together)
      /usr/bin/python3 -m venv --system-site-packages "$environment"
      "$environment/bin/pip" install -q -r "$wanted"
      ;;
    *)
      /usr/bin/python3 -m venv "$environment"
      "$environment/bin/pip" install -q -r "$wanted"
      ;;
  esac
  cp "$wanted" "$environment/requirements.txt"
  echo "frameworks: made the environment of $1 in $((SECONDS - started)) s"
}

if (($# == 0)); then
  set -- torch tf jax together
fi
for name in "$@"; do
  if [[ ! -f $TESTS/${name}_tests/requirements.txt ]]; then
    echo "frameworks: there is no '$name'; there are torch, tf, jax and together" >&2
    exit 2
  fi
done

"$ROOT/scripts/setup.sh" --frameworks
if [[ -z ${BULKHEAD_BIN_DIR:-} ]]; then
  "$ROOT/scripts/build.sh"
  export BULKHEAD_BIN_DIR=$BIN
fi
failed=()
for name in "$@"; do
  prepare "$name"
  echo "frameworks: $name"
  started=$SECONDS
  "$ENVIRONMENTS/$name/bin/python" -m pytest -p no:cacheprovider -q --durations=5 "$TESTS/${name}_tests" || failed+=("$name")
  echo "frameworks: $name took $((SECONDS - started)) s"
done
if ((${#failed[@]})); then
  echo "frameworks: failed: ${failed[*]}" >&2
  exit 1
fi
