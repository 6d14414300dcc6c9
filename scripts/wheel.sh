#!/bin/bash
# Makes the wheels, in build/wheels:
#   bulkhead_loader-VERSION-py3-none-manylinux_2_34_x86_64.whl   the Python client, the programs, and what runs Python stages
#   bulkhead_loader-VERSION-py3-none-any.whl                     the Python client alone
#
#   scripts/wheel.sh             makes them
#   scripts/wheel.sh --test      and runs tests/wheel, which installs them into fresh environments
#   scripts/wheel.sh --programs  makes what they hold, and no wheels: build/wheel/installed
#
# Builds the preset `wheel` in build/wheel, which takes a quarter of an hour. Debian 12: its archives and sources go in.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly FOLDER=$ROOT/build/wheel SOURCES=$ROOT/build/wheel-sources WHEELS=$ROOT/build/wheels
readonly PLATFORM=manylinux_2_34_x86_64
readonly PROGRAMS=(bulkhead bulkheadd bulkhead-worker bulkhead-fetch bulkhead-receive)
# Development packages whose source is needed (cmake/BulkheadStatic.cmake): what has no archive, or one for programs only.
readonly FROM_SOURCE=(libprotobuf-dev libabsl-dev libjpeg62-turbo-dev libfmt-dev libspdlog-dev libspng-dev libisal-dev prometheus-cpp-dev)

tests=false
wheels=true
case ${1:-} in
  '') ;;
  --test) tests=true ;;
  --programs) wheels=false ;;
  -h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "wheel: unknown argument '$1'; try --help" >&2
    exit 2
    ;;
esac

# The sources of the installed packages, by apt. It keeps lists of its own for that, so the machine's stay as they are.
unpack_sources() {
  local wanted=() package
  for package in "${FROM_SOURCE[@]}"; do
    # shellcheck disable=SC2016  # dpkg-query's own variables
    wanted+=("$(dpkg-query -W -f '${source:Package}=${source:Version}' "$package")")
  done
  if [[ -f $SOURCES/unpacked && $(<"$SOURCES/unpacked") == "${wanted[*]}" ]]; then return 0; fi
  rm -rf "$SOURCES"
  mkdir -p "$SOURCES/apt/lists/partial"
  # shellcheck disable=SC2016  # apt-get's own variables
  apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u >"$SOURCES/apt/sources.list"
  local apt=(apt-get -q -o APT::Sandbox::User=root -o Dir::Etc::sourceparts=- -o "Dir::Etc::sourcelist=$SOURCES/apt/sources.list"
    -o "Dir::State::lists=$SOURCES/apt/lists" -o "Dir::Cache=$SOURCES/apt")
  if ! (cd "$SOURCES" && "${apt[@]}" update && "${apt[@]}" source "${wanted[@]}") >"$SOURCES/log" 2>&1; then
    tail -n 20 "$SOURCES/log" >&2
    echo "wheel: Debian's sources of ${wanted[*]} could not be had" >&2
    return 1
  fi
  echo "${wanted[*]}" >"$SOURCES/unpacked"
}

# NAME VERSION of every Debian package whose library is inside the programs: those of the linked archives, and of the sources.
list_linked() {
  # shellcheck disable=SC2016  # dpkg-query's own variables
  ninja -C "$FOLDER" -t commands "${PROGRAMS[@]}" | grep -oE '/usr/[^ ]+\.a\b' | sort -u | xargs dpkg -S |
    sed 's/:.*//' | cat - <(printf '%s\n' "${FROM_SOURCE[@]}" libstdc++-12-dev) | sort -u |
    xargs dpkg-query -W -f '${Package} ${Version}\n' >"$FOLDER/linked"
}

# The client's wheel, from a copy, since setuptools leaves files where it works.
pack_client() {
  local copy=$FOLDER/client
  rm -rf "$copy"
  mkdir -p "$copy"
  cp -r "$ROOT"/client/python/{bulkhead,pyproject.toml,README.md} "$copy"
  find "$copy" -name __pycache__ -prune -exec rm -rf {} +
  /usr/bin/python3 -m pip wheel -q --no-deps --no-build-isolation --no-index -w "$WHEELS" "$copy"
}

# What the Python project's own tool says of the wheel: it must find nothing that the platform's tag does not promise.
audit() {
  local said
  [[ -x $FOLDER/audit/bin/auditwheel ]] || /usr/bin/python3 -m venv "$FOLDER/audit"
  "$FOLDER/audit/bin/pip" install -q --only-binary :all: auditwheel==6.8.2
  said=$("$FOLDER/audit/bin/auditwheel" show "$1")
  if ! tr '\n' ' ' <<<"$said" | grep -qF "is consistent with the following platform tag: \"$PLATFORM\""; then
    echo "$said" >&2
    echo "wheel: auditwheel does not find what $PLATFORM says" >&2
    return 1
  fi
  echo "wheel: auditwheel: consistent with $PLATFORM"
}

started=$SECONDS
"$ROOT/scripts/setup.sh" --wheel
unpack_sources
mkdir -p "$FOLDER"
if ! (cd "$ROOT" && cmake --preset wheel && cmake --build --preset wheel --target "${PROGRAMS[@]}") >"$FOLDER/build.log" 2>&1; then
  tail -n 60 "$FOLDER/build.log" >&2
  echo "wheel: the build failed; all of its output is in $FOLDER/build.log" >&2
  exit 1
fi
rm -rf "$FOLDER/installed"
for component in runtime python-stages development; do
  cmake --install "$FOLDER" --component "$component" --strip --prefix "$FOLDER/installed" >/dev/null
done
list_linked
if ! $wheels; then
  echo "wheel: the programs are in $FOLDER/installed, after $((SECONDS - started)) s"
  exit 0
fi
rm -rf "$WHEELS"
mkdir -p "$WHEELS"
pack_client
"$ROOT/scripts/wheel_pack.py" "$WHEELS"/*-py3-none-any.whl "$FOLDER/installed" "$PLATFORM" "$WHEELS" >/dev/null
advzip -q -z -3 "$WHEELS"/*"$PLATFORM.whl"  # packed anew, 3 % smaller
audit "$WHEELS"/*"$PLATFORM.whl"
for wheel in "$WHEELS"/*.whl; do echo "wheel: $(stat -c %s "$wheel") bytes in $wheel"; done
echo "wheel: done in $((SECONDS - started)) s"
if $tests; then
  # $BULKHEAD_WHEEL_PYTHON: the interpreter of its environments.
  BULKHEAD_WHEELS=$WHEELS exec /usr/bin/python3 -m pytest -q -p no:cacheprovider "$ROOT/tests/wheel"
fi
