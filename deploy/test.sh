#!/bin/bash
# Builds both images and runs them by podman and runc, as the pods of deploy/kubernetes would run: read-only root, no
# capabilities, no new privileges, a memory limit, one user. Batches go from one container to another, by shared memory and by gRPC.
# Prints how large the images are and how soon the service serves. As root; takes a package index.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../scripts/common.sh"

"$HERE/docker/build.sh" --python
exec /usr/bin/python3 -m pytest -q -p no:cacheprovider "$ROOT/tests/containers" "$@"
