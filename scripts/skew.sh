#!/bin/bash
# Clients and services of different days: both clients and the tool of the commit before TLS came (0.1.0, November 2026)
# against the service of this tree, and those of this tree against the service of that commit, over shared memory and gRPC.
#
#   scripts/skew.sh
#
# Builds that commit into build/skew, which takes as long as a first build does; afterwards a few seconds. Exit code 77
# where the repository does not have the commit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly COMMIT=37b9bde590e84dd890425287035ad5a976897ba5
readonly OLD=$ROOT/build/skew/${COMMIT:0:12}
readonly PROGRAMS=(bulkheadd bulkhead-worker bulkhead bulkhead-client-digest)

if [[ ! -d $OLD ]]; then
  if ! git -C "$ROOT" cat-file -e "$COMMIT" 2>/dev/null; then
    echo "skew: skipped: this repository does not have the commit $COMMIT"
    exit 77
  fi
  mkdir -p "$OLD.new"
  git -C "$ROOT" archive "$COMMIT" | tar -x -C "$OLD.new"
  mv "$OLD.new" "$OLD"
fi
nice "$OLD/scripts/build.sh" "${PROGRAMS[@]}"
build "${PROGRAMS[@]}"

work=$(mktemp -d)
services=()
trap 'kill "${services[@]}"; wait; rm -rf "$work"' EXIT

# root_of old|new
root_of() { if [[ $1 == old ]]; then echo "$OLD"; else echo "$ROOT"; fi; }

# serve old|new: a service at $work/old.sock or $work/new.sock.
serve() {
  local bin
  bin=$(root_of "$1")/build/release/bin
  mkfifo "$work/$1.ready"
  "$bin/bulkheadd" --listen "unix:$work/$1.sock" --root "$work" --cache-dir "$work/$1.cache" --workers 2 --log-level err \
    --ready-fd 3 3>"$work/$1.ready" &
  services+=($!)
  local said
  read -r said <"$work/$1.ready"
  [[ $said == ready* ]]
}

# stream CLIENT VERSION SERVICE OPTION…: prints what the client says.
stream() {
  local client=$1 version=$2 service=$3 root
  root=$(root_of "$version")
  shift 3
  local run=("$root/build/release/bin/bulkhead-client-digest")
  if [[ $client == python ]]; then run=(env "PYTHONPATH=$root/client/python" /usr/bin/python3 -m bulkhead.digest); fi
  "${run[@]}" --spec "$work/spec.yaml" --target "unix:$work/$service.sock" --name "$client-$version" "$@"
}
part() { /usr/bin/python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)[sys.argv[1]]))' "$1"; }

"$BIN/bulkhead" synth "$work/photos" --count 60 --size 160x120 --seed 7 >/dev/null
cat >"$work/spec.yaml" <<END
source: {image_folder: {path: $work/photos/folder}}
stages: [decode_image, {random_resized_crop: {size: 64}}, random_horizontal_flip]
order: {global: {}}
batch: {size: 16}
epochs: 2
seed: 7
END
serve old
serve new
echo "| client | service | transport | batches, their SHA-256 |"
echo "|---|---|---|---|"
for service in old new; do
  other=$([[ $service == old ]] && echo new || echo old)
  for transport in shm grpc; do
    # The bytes are the service's, so its own client says which ones are right.
    right=$(stream cpp "$service" "$service" --transport "$transport")
    for client in cpp python; do
      got=$(stream "$client" "$other" "$service" --transport "$transport")
      [[ $(part digest <<<"$got") == "$(part digest <<<"$right")" ]]
      # Half of it, and the rest by the cursor.
      half=$(stream "$client" "$other" "$service" --transport "$transport" --batches 3)
      rest=$(stream "$client" "$other" "$service" --transport "$transport" --cursor "$(part cursor <<<"$half")")
      (($(part batches <<<"$half") + $(part batches <<<"$rest") == $(part batches <<<"$right")))
      echo "| $other, $client | $service | $transport | $(part batches <<<"$got"), $(part digest <<<"$got" | cut -c2-13)… |"
    done
  done
  tool=$(root_of "$other")/build/release/bin/bulkhead
  "$tool" status --target "unix:$work/$service.sock" >/dev/null
  "$tool" validate "$work/spec.yaml" --data --target "unix:$work/$service.sock" >/dev/null
  echo "| $other, \`bulkhead\` status and validate | $service | | |"
done
echo "skew: passed"
