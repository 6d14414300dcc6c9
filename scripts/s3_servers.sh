#!/bin/bash
# Has Bulkhead read from servers of S3 that others wrote (tests/e2e/objects/test_foreign_store.py): VersityGW, which keeps
# objects in a folder and checks every signature, and moto, which keeps them in memory and checks none.
#
#   scripts/s3_servers.sh [SERVER…]     versitygw and moto by default
#
# Needs a package index; VersityGW is built with Go into build/s3. Exit code 77 without a Go that is new enough.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly TOOLS=$ROOT/build/s3 GATEWAY_VERSION=v1.8.0 MOTO_VERSION=5.2.5
export AWS_ACCESS_KEY_ID=bulkhead AWS_SECRET_ACCESS_KEY=of-a-test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
export BULKHEAD_S3_PYTHON=$TOOLS/moto/bin/python BULKHEAD_BIN_DIR=${BULKHEAD_BIN_DIR:-$BIN}

work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; wait; rm -rf "$work"' EXIT

free_port() { /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Asks until the server answers, and makes the bucket.
make_bucket() {
  "$BULKHEAD_S3_PYTHON" -c 'import boto3
from botocore.config import Config
store = boto3.client("s3", config=Config(retries={"total_max_attempts": 30, "mode": "standard"}))
store.create_bucket(Bucket="bulkhead")'
}

# Starts a server with the given words, makes the bucket and runs the tests: NAME, whether it checks signatures, its command.
try() {
  local name=$1 signed=$2
  shift 2
  "$@" >"$work/$name.log" 2>&1 &
  server=$!
  if ! make_bucket; then
    tail -n 20 "$work/$name.log" >&2
    echo "s3: $name does not serve at $AWS_ENDPOINT_URL" >&2
    return 1
  fi
  echo "s3: $name"
  BULKHEAD_S3_SERVER=$name BULKHEAD_S3_SIGNED=$signed PYTHONPATH=$ROOT/tests/e2e:$ROOT/client/python \
    /usr/bin/python3 -m pytest -q -p no:cacheprovider "$ROOT/tests/e2e/objects/test_foreign_store.py"
  kill "$server"
  wait "$server" || true
  server=
}

versitygw() {
  if [[ ! -x $TOOLS/bin/versitygw ]]; then
    PATH=$PATH:/usr/local/go/bin
    if ! command -v go >/dev/null || [[ $(printf '%s\n' go1.25 "$(go env GOVERSION)" | sort -V | head -n 1) != go1.25 ]]; then
      echo "s3: skipped: there is no Go of version 1.25 or newer"
      exit 77
    fi
    GOBIN=$TOOLS/bin GOPATH=$TOOLS/go GOCACHE=$TOOLS/cache GOFLAGS=-modcacherw GOTOOLCHAIN=local \
      go install "github.com/versity/versitygw/cmd/versitygw@$GATEWAY_VERSION"
    rm -rf "$TOOLS/go" "$TOOLS/cache"
  fi
  local port
  port=$(free_port)
  mkdir "$work/versitygw"
  AWS_ENDPOINT_URL=http://127.0.0.1:$port
  export AWS_ENDPOINT_URL
  try versitygw 1 env ROOT_ACCESS_KEY="$AWS_ACCESS_KEY_ID" ROOT_SECRET_KEY="$AWS_SECRET_ACCESS_KEY" \
    "$TOOLS/bin/versitygw" --port "127.0.0.1:$port" posix "$work/versitygw"
}

moto() {
  local port
  port=$(free_port)
  AWS_ENDPOINT_URL=http://127.0.0.1:$port
  export AWS_ENDPOINT_URL
  try moto 0 "$TOOLS/moto/bin/moto_server" --host 127.0.0.1 --port "$port"
}

if [[ ! -x $TOOLS/moto/bin/moto_server ]]; then
  /usr/bin/python3 -m venv "$TOOLS/moto"
  "$TOOLS/moto/bin/python" -m pip install -q "moto[s3,server]==$MOTO_VERSION"
fi
servers=("$@")
if ((${#servers[@]} == 0)); then servers=(moto versitygw); fi
for name in "${servers[@]}"; do
  case $name in
    versitygw | moto) "$name" ;;
    *)
      echo "s3: there is no server '$name'; there are: versitygw moto" >&2
      exit 2
      ;;
  esac
done
