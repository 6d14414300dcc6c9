#!/bin/bash
# Has grpcurl, of a release of its own, describe and call a running service by nothing but its reflection, over the Unix
# socket. Builds grpcurl into build/grpcurl with Go.
#
#   scripts/grpcurl.sh [FOLDER]     of the programs; build/release/bin by default
#
# Exit code 77 without a Go that is new enough (Debian 12's is not).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly PROGRAMS=${1:-$BIN} VERSION=v1.9.4 TOOLS=$ROOT/build/grpcurl
readonly GRPCURL=$TOOLS/bin/grpcurl

if [[ ! -x $GRPCURL ]]; then
  PATH=$PATH:/usr/local/go/bin
  if ! command -v go >/dev/null || [[ $(printf '%s\n' go1.23 "$(go env GOVERSION)" | sort -V | head -n 1) != go1.23 ]]; then
    echo "grpcurl: skipped: there is no Go of version 1.23 or newer"
    exit 77
  fi
  GOBIN=$TOOLS/bin GOPATH=$TOOLS/go GOCACHE=$TOOLS/cache GOFLAGS=-modcacherw GOTOOLCHAIN=local \
    go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$VERSION"
fi

work=$(mktemp -d)
service=
trap '[[ -z $service ]] || kill "$service"; wait; rm -rf "$work"' EXIT
mkfifo "$work/ready"
"$PROGRAMS/bulkheadd" --listen "unix:$work/s.sock" --cache-dir "$work/cache" --workers 1 --log-level err \
  --ready-fd 3 3>"$work/ready" &
service=$!
read -r said <"$work/ready"
[[ $said == ready* ]]

ask() { "$GRPCURL" -plaintext -unix "$@"; }
said_by() {  # WORDS TEXT: fails when the text does not have the words
  if ! grep -qF -- "$1" <<<"$2"; then
    printf 'grpcurl: "%s" is missing in:\n%s\n' "$1" "$2" >&2
    exit 1
  fi
}

services=$(ask "$work/s.sock" list)
said_by bulkhead.v1.Loader "$services"
said_by grpc.health.v1.Health "$services"
described=$(ask "$work/s.sock" describe bulkhead.v1.Loader)
for call in Stream Describe GetStatus Recycle Quarantine Trace; do said_by "rpc $call (" "$described"; done
# Every message that the calls name, and the messages that these name, to the last.
todo=$(grep -o '\.bulkhead\.v1\.[A-Za-z0-9.]*' <<<"$described" | sort -u)
done_=
while [[ -n $todo ]]; do
  found=
  for name in $todo; do
    text=$(ask "$work/s.sock" describe "${name#.}")
    said_by "${name##*.} {" "$text"
    # Types are named with a dot in front; "google.protobuf.Timestamp is a message" names none.
    found+=$(grep -o '[ <]\.[a-z]*\(\.[a-z0-9]*\)*\.[A-Z][A-Za-z0-9.]*' <<<"$text" | tr -d ' <' || true)$'\n'
  done
  done_+=$todo$'\n'
  todo=$(sort -u <<<"$found" | grep -v '^$' | grep -vxFf <(echo "$done_") || true)
done
echo "$described"
echo "$(grep -c . <<<"$done_") messages and enums are described"
said_by '"status": "SERVING"' "$(ask -d '{"service": "bulkhead.v1.Loader"}' "$work/s.sock" grpc.health.v1.Health/Check)"
said_by '"pid": ' "$(ask "$work/s.sock" bulkhead.v1.Loader/GetStatus)"
echo "grpcurl: passed"
