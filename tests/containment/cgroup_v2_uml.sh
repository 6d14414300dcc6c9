#!/bin/bash
# Runs cgroup_test and compartment_test against cgroup v2, whatever this machine mounts: in a user-mode Linux kernel,
# which is an ordinary program (Debian: user-mode-linux) and needs no privilege. Its root is this machine's own.
#
#   cgroup_v2_uml.sh FOLDER      of the test programs
#
# Exit code 77 when the kernel is not installed, or cannot run a process on this CPU.
set -euo pipefail

TESTS=$(realpath "${1:?give the folder of the test programs}")
readonly TESTS
readonly LINUX=${BULKHEAD_UML:-linux.uml}

if ! command -v "$LINUX" >/dev/null; then
  echo "cgroup_v2_uml: skipped: there is no $LINUX (package user-mode-linux)"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the guest does. A kernel cannot end with an exit code, so the outcome is left in a file.
cat >"$work/init" <<EOF
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin BULKHEAD_TEST_BIN_DIR=$TESTS UML_DIR=$work
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd $work
result=0
for test in cgroup_test compartment_test; do
  $TESTS/\$test --gtest_color=no >$work/\$test.log 2>&1 || result=1
done
echo \$result >$work/result
sync
# The guest's kernel has no machine to switch off: halting it ends the program.
echo o >/proc/sysrq-trigger
sleep 10
EOF
chmod +x "$work/init"

TMPDIR=$work timeout 240 "$LINUX" mem=256M rootfstype=hostfs rootflags=/ rw "init=$work/init" \
  con=null con0=null,fd:1 ssl=null quiet </dev/null >"$work/console" 2>&1 || true

# The kernel has room for the registers of the CPUs that it knows; those with AMX have more.
if [[ ! -s $work/result ]] && grep -q put_fp_registers "$work/console"; then
  echo "cgroup_v2_uml: skipped: $LINUX cannot restore the registers of this CPU, so no process runs under it"
  exit 77
fi
if [[ ! -s $work/result ]]; then
  echo "cgroup_v2_uml: the guest did not come to an end; its console:" >&2
  tail -40 "$work/console" >&2
  exit 1
fi
for log in "$work"/*_test.log; do
  echo "== $(basename "$log" .log) under $("$LINUX" --version), cgroup v2"
  grep -vE '^\[( RUN +| +OK |-+|=+)\]|^Running main|^$' "$log" || true
done
# A version 2 test that was skipped shows nothing.
if grep -q 'SKIPPED' "$work"/*_test.log; then
  echo "cgroup_v2_uml: tests were skipped that this guest is for" >&2
  exit 1
fi
exit "$(cat "$work/result")"
