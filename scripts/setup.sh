#!/bin/bash
# Installs the Debian packages that Bulkhead is built from, those that are missing only.
#
#   scripts/setup.sh           what building and running needs
#   scripts/setup.sh --test    and what the tests need (Python, the rare image formats, Prometheus, nginx, a kernel with
#                              cgroup v2)
#   scripts/setup.sh --fuzz        and what scripts/fuzz_jpeg.sh needs (clang with libFuzzer)
#   scripts/setup.sh --frameworks  and what scripts/frameworks.sh needs (virtual environments)
#   scripts/setup.sh --together    and what `scripts/frameworks.sh together` needs (PyTorch)
#   scripts/setup.sh --wheel       and what scripts/wheel.sh needs (an assembler, what unpacks Debian's sources)
#   scripts/setup.sh --image       and what deploy/docker/build.sh and deploy/test.sh need (buildah, podman)
#   scripts/setup.sh --dev     and what scripts/check.sh needs (clang-format, shellcheck)
#
# Runs as root, or as a user who may use sudo. Does nothing, and asks for no password, when all are there.
set -euo pipefail

# Only these two modules of OpenCV: libopencv-dev would bring Qt, VTK and 600 MB more.
readonly BUILD_PACKAGES=(
  g++ make cmake ninja-build mold ccache pkgconf
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev
  libopencv-core-dev libopencv-imgproc-dev libjpeg62-turbo-dev libspng-dev libwebp-dev
  libisal-dev zlib1g-dev libssl-dev libseccomp-dev libcurl4-openssl-dev libexpat1-dev
  libyaml-cpp-dev libcli11-dev libspdlog-dev libgtest-dev libgmock-dev
  prometheus-cpp-dev
)
readonly TEST_PACKAGES=(
  binutils fuse3 iproute2 libfaketime libopencv-imgcodecs-dev libtiff-dev openssl procps python3-fusepy qemu-user user-mode-linux
  python3 python3-numpy python3-grpcio python3-protobuf python3-pip python3-pytest python3-pytest-xdist python3-tqdm python3-jsonschema python3-yaml
  python3-opencv python3-pil fish zsh
)
readonly FRAMEWORK_PACKAGES=(
  python3 python3-venv python3-numpy python3-grpcio python3-protobuf python3-pytest
)
readonly TOGETHER_PACKAGES=(python3-torch)
readonly WHEEL_PACKAGES=(
  advancecomp binutils dpkg-dev nasm python3 python3-pip python3-pytest python3-setuptools python3-venv python3-wheel
)
readonly IMAGE_PACKAGES=(
  buildah git mmdebstrap podman python3 python3-pip python3-pytest python3-venv python3-yaml runc
)
readonly DEV_PACKAGES=(clang-format cloc git shellcheck universal-ctags)

usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
}

# Prints those of its arguments that are not installed.
missing_packages() {
  local package state
  for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $state == installed ]] || echo "$package"
  done
}

# unpack PACKAGE FOLDER PROGRAM… - for the tests of metrics: the programs in FOLDER of a Debian package, in build/PACKAGE. The
# package itself is not installed, since that would start its service on this machine, now and at every boot.
unpack() {
  local package=$1 inside=$2 folder
  shift 2
  folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/$package
  if [[ -x $folder/$inside/$1 ]] || command -v "$@" >/dev/null; then return 0; fi
  local download
  download=$(mktemp -d)
  if (cd "$download" && apt-get -q download "$package" && dpkg-deb -x "$package"_*.deb unpacked) >"$download/log" 2>&1; then
    mkdir -p "$folder/$(dirname "$inside")"
    rm -rf "${folder:?}/$inside"
    mv "$download/unpacked/$inside" "$folder/$inside"
    rm -rf "$download"
    echo "setup: unpacked $package into $folder"
  else
    cat "$download/log" >&2
    rm -rf "$download"
    echo "setup: Debian's package $package could not be had; is its list there (apt-get update)?" >&2
    return 1
  fi
}

# Runs apt-get as root. Its output goes to a log that is shown when it fails.
apt_get() {
  local log=$1
  shift
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q -y -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io "$@" >"$log" 2>&1; then
    cat "$log" >&2
    echo "setup: 'apt-get $*' failed; its output is above" >&2
    return 1
  fi
}

main() {
  local wanted=("${BUILD_PACKAGES[@]}") tests=false
  while (($#)); do
    case $1 in
      --test)
        wanted+=("${TEST_PACKAGES[@]}")
        tests=true
        ;;
      --together)
        wanted+=("${TOGETHER_PACKAGES[@]}")
        ;;
      --frameworks)
        wanted+=("${FRAMEWORK_PACKAGES[@]}")
        ;;
      --wheel)
        wanted+=("${WHEEL_PACKAGES[@]}")
        ;;
      --image)
        wanted+=("${IMAGE_PACKAGES[@]}")
        ;;
      --fuzz)
        wanted+=(clang libclang-rt-14-dev)
        ;;
      --dev)
        wanted+=("${TEST_PACKAGES[@]}" "${DEV_PACKAGES[@]}")
        tests=true
        ;;
      -h | --help)
        usage
        return 0
        ;;
      *)
        echo "setup: unknown argument '$1'; try --help" >&2
        return 2
        ;;
    esac
    shift
  done

  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this script knows Debian's packages only. On another system install the counterparts of:" >&2
    printf '  %s\n' "${wanted[*]}" >&2
    return 1
  fi

  install_missing "${wanted[@]}"
  if $tests; then
    unpack prometheus usr/bin prometheus
    unpack nginx usr/sbin nginx
  fi
}

# Installs those of its arguments that are not there.
install_missing() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    echo "setup: all $# packages are installed"
    return 0
  fi

  as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: ${#missing[@]} packages are missing and there is no sudo; run this as root:" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi

  local log started=$SECONDS
  log=$(mktemp)
  # shellcheck disable=SC2064  # the name is wanted as it is now
  trap "rm -f '$log'" EXIT
  echo "setup: ${#missing[@]} of $# packages are missing; reading the package lists"
  apt_get "$log" update
  echo "setup: installing ${missing[*]}"
  apt_get "$log" install --no-install-recommends "${missing[@]}"
  echo "setup: done in $((SECONDS - started)) s"
}

main "$@"
