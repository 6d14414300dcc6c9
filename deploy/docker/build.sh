#!/bin/bash
# Builds the service's images, without a Docker engine: mmdebstrap makes their files, buildah an image of them.
#
#   deploy/docker/build.sh             bulkhead:VERSION: the programs of the wheel, and the C library
#   deploy/docker/build.sh --python    and bulkhead:VERSION-python: with an interpreter and what requirements.txt lists
#
# They are in the store of buildah and podman then. As root, on Debian 12. Builds the wheel's programs (scripts/wheel.sh).
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../../scripts/common.sh"

readonly FOLDER=$ROOT/build/image USER_ID=10001
# The C library's packages bring libgcc_s, too; base-files says which Debian this is; bulkhead-fetch loads libcurl.
readonly PACKAGES=(base-files libc6 libcurl4 libgcc-s1)
# An interpreter with pip, the C++ library that packages of PyPI want of a system, and the shell of a Dockerfile's RUN.
readonly PYTHON_PACKAGES=(dash libstdc++6 python3-venv)
readonly PYTHON=/opt/python CYCLONEDX=11.12.0

variants=('')
case ${1:-} in
  '') ;;
  --python) variants+=(-python) ;;
  -h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "image: unknown argument '$1'; try --help" >&2
    exit 2
    ;;
esac
if ((EUID != 0)); then
  echo "image: needs root, to make the files of an image with their owners" >&2
  exit 1
fi

# make_root FOLDER PACKAGE… - what these packages and those they depend on hold. Nothing is configured, so there is no
# package manager in it; scanners find the packages in status.d, as in other images without one.
make_root() {
  local root=$1 sources
  shift
  # shellcheck disable=SC2016  # apt-get's own variables
  sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u)
  # shellcheck disable=SC2016  # the hook's own variables
  mmdebstrap --quiet --mode=root --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --include="$(IFS=, && echo "$*")" --extract-hook='mkdir -p "$1/var/lib/dpkg/status.d" &&
      for package in "$1"/var/cache/apt/archives/*.deb; do
        dpkg-deb --field "$package" >"$1/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)" || exit 1
      done' bookworm "$root" - <<<"$sources" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    echo "image: the files of $* could not be had" >&2
    return 1
  }
  rm -rf "${root:?}"/{boot,home,media,mnt,srv} "${root:?}"/dev/* "$root"/etc/{apt,dpkg,fstab,hostname,resolv.conf,skel,update-motd.d} \
    "${root:?}"/var/{backups,cache,lib/apt,local,log,mail,spool} "$root/usr/share/lintian"
  find "$root/var/lib/dpkg" -mindepth 1 -maxdepth 1 ! -name status.d -exec rm -rf {} +
  install -d -m 755 "$root"/{usr/local,var/cache,var/log}
  echo 'root:x:0:0:root:/:/sbin/nologin' >"$root/etc/passwd"
  echo "bulkhead:x:$USER_ID:$USER_ID:Bulkhead:/:/sbin/nologin" >>"$root/etc/passwd"
  printf 'root:x:0:\nbulkhead:x:%d:\n' $USER_ID >"$root/etc/group"
  # Where the service listens and caches unless it is told otherwise; volumes there begin with this owner.
  install -d -m 700 -o $USER_ID -g $USER_ID "$root"/{run,var/cache}/bulkhead
  ldconfig -r "$root"
}

# add_certificates ROOT - the authorities that libcurl trusts: those of Debian's ca-certificates, in one file, as its
# update-ca-certificates writes it. The package itself would bring OpenSSL's command, debconf and Perl.
add_certificates() {
  local root=$1 folder=$FOLDER/certificates
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && apt-get -q download ca-certificates && dpkg-deb -x ca-certificates_*.deb unpacked) >"$root.log" 2>&1 || {
    cat "$root.log" >&2
    echo "image: Debian's package ca-certificates could not be had" >&2
    return 1
  }
  install -d -m 755 "$root"/{etc/ssl/certs,usr/share/doc/ca-certificates}
  find "$folder/unpacked/usr/share/ca-certificates" -name '*.crt' -print0 | sort -z | xargs -0 awk 1 >"$root/etc/ssl/certs/ca-certificates.crt"
  cp "$folder/unpacked/usr/share/doc/ca-certificates/copyright" "$root/usr/share/doc/ca-certificates"
  dpkg-deb --field "$folder"/ca-certificates_*.deb >"$root/var/lib/dpkg/status.d/ca-certificates"
}

# Python packages as requirements.txt pins them, and everything compiled: a root that is read-only keeps no __pycache__.
add_python() {
  local root=$1 packages=$FOLDER/packages
  chroot "$root" /usr/bin/python3 -m venv "$PYTHON"
  /usr/bin/python3 -m pip install -q --root-user-action=ignore --only-binary :all: --no-compile --target "$packages" -r "$HERE/requirements.txt"
  rm -rf "${packages:?}/bin"
  # Nobody imports them: a tenth of NumPy's and h5py's size.
  find "$packages" -type d -name tests -prune -exec rm -rf {} +
  cp -r "$packages/." "$root$PYTHON/lib/python3.11/site-packages"
  # By content, since an image's files have one time.
  chroot "$root" "$PYTHON/bin/python3" -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3* "$PYTHON/lib" >"$root.log"
}

# make_image VARIANT ROOT - an image of these files; prints its name.
make_image() {
  local name=bulkhead:$version$1 root=$2 container mounted path=/usr/local/bin:/usr/bin:/bin
  [[ -z $1 ]] || path=$PYTHON/bin:$path
  container=$(buildah from --format docker scratch)
  mounted=$(buildah mount "$container")
  tar -C "$root" -c . | tar -C "$mounted" -x
  buildah umount "$container" >/dev/null
  buildah config --user "$USER_ID:$USER_ID" --workingdir / \
    --entrypoint '["/usr/local/bin/bulkheadd"]' --cmd --root=/data \
    --env PATH="$path" --env LANG=C.UTF-8 --env XDG_RUNTIME_DIR=/run --env XDG_CACHE_HOME=/var/cache \
    --healthcheck 'CMD /usr/local/bin/bulkhead health --timeout 2' --healthcheck-interval 10s --healthcheck-timeout 3s \
    --label org.opencontainers.image.title=Bulkhead --label org.opencontainers.image.version="$version" \
    --label org.opencontainers.image.description='Loads data for training jobs, in processes of its own' \
    --label org.opencontainers.image.licenses=Apache-2.0 --label org.opencontainers.image.base.name=debian:bookworm \
    --label org.opencontainers.image.revision="$(git -C "$ROOT" rev-parse HEAD)" \
    --label org.opencontainers.image.created="$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" "$container"
  # Docker's format, since OCI's has no HEALTHCHECK.
  buildah commit -q --format docker --timestamp "$SOURCE_DATE_EPOCH" --rm "$container" "$name" >/dev/null
  echo "$name"
}

"$ROOT/scripts/setup.sh" --image
"$ROOT/scripts/wheel.sh" --programs
SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct)
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$ROOT/client/python/bulkhead/__init__.py")
export SOURCE_DATE_EPOCH
rm -rf --one-file-system "$FOLDER"/{root,root-python,packages,certificates}
mkdir -p "$FOLDER"
if [[ ! -f $FOLDER/cyclonedx/$CYCLONEDX ]]; then
  /usr/bin/python3 -m venv --clear "$FOLDER/cyclonedx"
  "$FOLDER/cyclonedx/bin/pip" install -q --only-binary :all: "cyclonedx-python-lib[json-validation]==$CYCLONEDX"
  touch "$FOLDER/cyclonedx/$CYCLONEDX"
fi
for variant in "${variants[@]}"; do
  root=$FOLDER/root$variant
  packages=("${PACKAGES[@]}")
  [[ -z $variant ]] || packages+=("${PYTHON_PACKAGES[@]}")
  make_root "$root" "${packages[@]}"
  add_certificates "$root"
  cp -r "$ROOT"/build/wheel/installed/{bin,lib} "$root/usr/local"
  [[ -z $variant ]] || add_python "$root"
  mkdir "$root/usr/share/bulkhead"
  "$FOLDER/cyclonedx/bin/python" "$HERE/sbom.py" "$version" "$root" "$ROOT/build/wheel/linked" >"$root/usr/share/bulkhead/sbom.cdx.json"
  name=$(make_image "$variant" "$root")
  echo "image: $name, $(podman image inspect -f '{{.Size}}' "$name") bytes"
done
