#!/bin/bash
# The Python client with the real PyTorch, TensorFlow with Keras, and JAX, on the CPU, each alone and all together in
# one process: makes each environment where it is missing, in build/frameworks, and runs its tests and examples.
#
#   scripts/frameworks.sh              all of them, two at a time
#   scripts/frameworks.sh torch jax    these
#   scripts/frameworks.sh ray          bulkhead.ray, which is not among all of them: a cluster of several processes a node
#   scripts/frameworks.sh --prepare    only makes the environments, one after the other
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
  local environment=$ENVIRONMENTS/$1 wanted=$TESTS/${1}_tests/requirements.txt started=$SECONDS options=()
  if cmp -s "$wanted" "$environment/requirements.txt"; then return 0; fi
  rm -rf "$environment"
  mkdir -p "$ENVIRONMENTS"
  if [[ $1 == together ]]; then options=(--system-site-packages); fi
  /usr/bin/python3 -m venv "${options[@]}" "$environment"
  if [[ $1 == together ]]; then
    # Python compiles what it imports, which is a small part of what there is.
    "$environment/bin/pip" install -q --no-compile --no-cache-dir -r "$wanted"
  else
    # In half of pip's CPU time; but it does not see what the system has.
    "$environment/bin/pip" install -q uv
    "$environment/bin/uv" pip install -q --no-cache --python "$environment/bin/python" -r "$wanted"
  fi
  cp "$wanted" "$environment/requirements.txt"
  echo "frameworks: made the environment of $1 in $((SECONDS - started)) s"
}

# run_tests NAME - says all at once what they said, for others run beside them. What they import is compiled once, also
# where the user's environment keeps nothing compiled.
run_tests() {
  local started=$SECONDS failed=0 said
  said=$(PYTHONDONTWRITEBYTECODE='' PYTHONPATH=$ROOT/tests/e2e "$ENVIRONMENTS/$1/bin/python" -m pytest -p slow_tests -p tidy_tests -p no:cacheprovider -q --durations=5 "$TESTS/${1}_tests" 2>&1) || failed=1
  printf '%s\n' "frameworks: $1" "$said" "frameworks: $1 took $((SECONDS - started)) s"
  return $failed
}

only_prepare=false
if [[ ${1:-} == --prepare ]]; then
  only_prepare=true
  shift
fi
if (($# == 0)); then
  set -- tf torch together jax
fi
for name in "$@"; do
  if [[ ! -f $TESTS/${name}_tests/requirements.txt ]]; then
    echo "frameworks: there is no '$name'; there are torch, tf, jax, together and ray" >&2
    exit 2
  fi
done

packages=(--frameworks)
if [[ " $* " == *" together "* ]]; then packages+=(--together); fi
"$ROOT/scripts/setup.sh" "${packages[@]}"
for name in "$@"; do prepare "$name"; done
if $only_prepare; then exit 0; fi
if [[ -z ${BULKHEAD_BIN_DIR:-} ]]; then
  "$ROOT/scripts/build.sh"
  export BULKHEAD_BIN_DIR=$BIN
fi
failed=()
declare -A running=()
# wait_for_one - until one of those that run has ended.
wait_for_one() {
  local ended status=0
  wait -n -p ended "${!running[@]}" || status=$?
  if ((status)); then failed+=("${running[$ended]}"); fi
  unset "running[$ended]"
}
for name in "$@"; do
  if ((${#running[@]} == 2)); then wait_for_one; fi
  run_tests "$name" &
  running[$!]=$name
done
while ((${#running[@]})); do wait_for_one; done
if ((${#failed[@]})); then
  echo "frameworks: failed: ${failed[*]}" >&2
  exit 1
fi
