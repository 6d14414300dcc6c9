#!/bin/bash
# Does the wheel of build/wheels work where there is nothing else? Makes a root of Debian 12 and one of Debian 13 with nothing but
# python3-venv, installs the wheel there by pip, reads a first batch, and prints how long each took. Then a loop of
# PyTorch, with Debian's python3-torch. In a root of Debian 11, whose C library is too old for the wheel, pip must refuse it.
# Needs root, mmdebstrap, a package index, and scripts/wheel.sh run before.
#
#   scripts/wheel_roots.sh [--keep] [--without-torch] FOLDER [RELEASE...]     default: bullseye bookworm trixie
#
# FOLDER must not exist; it is removed afterwards unless --keep is given. --without-torch leaves out PyTorch's loop.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

keep=false
torch=true
while [[ ${1:-} == --keep || ${1:-} == --without-torch ]]; do
  [[ $1 == --keep ]] && keep=true || torch=false
  shift
done
folder=${1:-}
if [[ -z $folder || -e $folder || $folder == -* ]]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit 2
fi
shift
if ((EUID != 0)) || ! command -v mmdebstrap >/dev/null; then
  echo "wheel roots: needs root and mmdebstrap" >&2
  exit 1
fi
releases=("$@")
((${#releases[@]})) || releases=(bullseye bookworm trixie)
readonly TOO_OLD=bullseye  # glibc 2.31
wheel=$(ls "$ROOT"/build/wheels/bulkhead_loader-*-manylinux*.whl) || {
  echo "wheel roots: there is no wheel in build/wheels; run scripts/wheel.sh" >&2
  exit 1
}

# Called by the trap below.
# shellcheck disable=SC2317
clean_up() {
  local root mounted
  for root in "$folder"/*; do
    for mounted in dev/shm dev proc; do
      ! mountpoint -q "$root/$mounted" || umount -l "$root/$mounted"
    done
  done
  $keep || rm -rf --one-file-system "$folder"
}
trap clean_up EXIT

# What this machine needs to reach its packages, the new root needs as well: names, certificates, apt's and pip's settings.
share_network() {
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
    [[ ! -f $file ]] || cp -L "$file" "$1/etc/"
  done
  mkdir -p "$1/etc/ssl/certs"
  [[ ! -f /etc/ssl/certs/ca-certificates.crt ]] || cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
  for file in /etc/apt/apt.conf.d/*; do
    ! grep -qsE '^ *Acquire::' "$file" || cp "$file" "$1/etc/apt/apt.conf.d/"
  done
}

# in_root ROOT COMMAND… - with an environment of its own.
in_root() {
  local root=$1
  shift
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${PIP_CERT:+PIP_CERT="$PIP_CERT"} "$@"
}

# refuses ROOT - pip's words, when it does not take the wheel there; fails when it does, or for another reason.
refuses() {
  local said
  in_root "$1" python3 -m venv /root/env
  if said=$(in_root "$1" sh -c '/root/env/bin/pip install -q --no-deps /root/*.whl' 2>&1); then
    echo "wheel roots: pip installed the wheel on too old a C library" >&2
    return 1
  fi
  echo "$said"
  grep -qF 'is not a supported wheel on this platform' <<<"$said"
}

readonly THREE_LINES='import bulkhead
for batch in bulkhead.Loader(bulkhead.Pipeline.image_folder("/root/photos/folder").decode_image().resize(size=[64, 64]).order_global().batch(16)):
    print(batch["image"].shape, batch["image"].dtype, batch["label"][:4]); break'
readonly TORCH_LOOP='import bulkhead, bulkhead.torch, torch
spec = bulkhead.Pipeline.image_folder("/root/photos/folder").decode_image().resize(size=[64, 64]).cast(dtype="float32", input="image").order_global().batch(16)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64 * 64 * 3, 2))
for batch in bulkhead.torch.Dataset(spec):
    model(batch["image"]).sum().backward()
print("torch", torch.__version__, "trained with", bulkhead.__version__)'

# shellcheck disable=SC2016  # apt-get's own variable
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)
mkdir -p "$folder"
for release in "${releases[@]}"; do
  root=$folder/$release
  echo "wheel roots: $release"
  mmdebstrap --quiet --variant=minbase --include=python3-venv "$release" "$root" "deb $mirror $release main"
  share_network "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
  cp "$wheel" "$root/root/"
  if [[ $release == "$TOO_OLD" ]]; then
    refuses "$root"
    continue
  fi
  started=$(date +%s.%N)
  in_root "$root" python3 -m venv /root/env
  made=$(date +%s.%N)
  in_root "$root" sh -c '/root/env/bin/pip install -q /root/*.whl'
  installed=$(date +%s.%N)
  in_root "$root" /root/env/bin/bulkhead synth /root/photos --count 128 --size 200x150 >/dev/null 2>&1
  drawn=$(date +%s.%N)
  in_root "$root" /root/env/bin/python -c "$THREE_LINES"
  first=$(date +%s.%N)
  awk -v a="$started" -v b="$made" -v c="$installed" -v d="$drawn" -v e="$first" -v release="$release" 'BEGIN {
    printf "wheel roots: %s: environment %.1f s, pip install %.1f s, first batch %.1f s: %.1f s from pip install to the first batch\n", release, b - a, c - b, e - d, c - b + e - d }'
  $torch || continue
  if ! in_root "$root" sh -c 'apt-get -qq update && apt-get -qqy install --no-install-recommends python3-torch' >"$folder/$release-torch.log" 2>&1; then
    tail -n 20 "$folder/$release-torch.log" >&2
    echo "wheel roots: python3-torch could not be installed in $release; --without-torch leaves it out" >&2
    exit 1
  fi
  in_root "$root" sh -c 'python3 -m venv --system-site-packages /root/torch && /root/torch/bin/pip install -q /root/*.whl'
  in_root "$root" /root/torch/bin/python -c "$TORCH_LOOP"
done
