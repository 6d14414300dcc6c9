#!/bin/bash
# Runs bulkheadd.service under a real systemd on cgroup v2, whatever this machine has: in a user-mode Linux kernel, which
# is an ordinary program (Debian: user-mode-linux). Its root is this machine's own, read-only. As root.
#
#   deploy/systemd/test.sh [FOLDER]     of the programs; build/release/bin by default
#
# Exit code 77 when the kernel or systemd is not installed, when the kernel cannot run a process on this CPU, or without root.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROGRAMS=$(realpath "${1:-$HERE/../../build/release/bin}")
readonly HERE PROGRAMS
readonly LINUX=${BULKHEAD_UML:-linux.uml}
readonly USER_ID=61234

for needed in "$LINUX" systemd-analyze /lib/systemd/systemd; do
  if ! command -v "$needed" >/dev/null; then
    echo "systemd: skipped: there is no $needed (packages user-mode-linux, systemd)"
    exit 77
  fi
done

if ((EUID != 0)); then
  echo "systemd: skipped: only root can read the whole of its own root folder, which is the guest's"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# What the unit names, where a machine has it. The guest sees $work as /run/trial.
mkdir -p "$work"/{units,bin,etc}
cp "$PROGRAMS"/{bulkheadd,bulkhead,bulkhead-worker,bulkhead-fetch,bulkhead-receive} "$work/bin"
cp "$HERE/bulkheadd.service" "$work/units"
printf 'workers: 2\nworker: {quota: 32MiB}\nmemory: {budget: 150MiB}\n' >"$work/etc/bulkheadd.yaml"
echo 'BULKHEADD_LOG_LEVEL=debug' >"$work/etc/bulkheadd.env"
{ cat /etc/passwd; echo "bulkhead:x:$USER_ID:$USER_ID::/:/usr/sbin/nologin"; } >"$work/passwd"
{ cat /etc/group; echo "bulkhead:x:$USER_ID:"; } >"$work/group"
printf 'source: {range: {size: 1000}}\nbatch: {size: 10}\n' >"$work/spec.yaml"

# The targets that the unit waits for, with nothing behind them.
for target in sysinit basic shutdown network-online local-fs sockets; do
  printf '[Unit]\nDefaultDependencies=no\n' >"$work/units/$target.target"
done
mkdir -p "$work/units/bulkheadd.service.d"
printf '[Service]\nStandardError=file:/run/trial/service.log\n' >"$work/units/bulkheadd.service.d/log.conf"
cat >"$work/units/test.target" <<END
[Unit]
Requires=test.service
END
cat >"$work/units/test.service" <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/run/trial/test
StandardOutput=file:/run/trial/test.log
StandardError=inherit
ExecStopPost=/run/trial/off
END

cat >"$work/test" <<END
#!/bin/bash
set -eux
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin BULKHEAD_SOCKET_USER=bulkhead
target=unix:/run/bulkhead/loader.sock
as_user() { setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups "\$@"; }
# Returns once the service has said that it is ready.
systemctl start bulkheadd
[[ \$(systemctl show -p StatusText --value bulkheadd) == "listening on \$target" ]]
as_user bulkhead health --target \$target
as_user bulkhead bench run --spec /run/trial/spec.yaml --target \$target --batches 50 &
client=\$!
until as_user bulkhead status --target \$target | tee /run/trial/status | grep -q '^quota: kernel-total'; do :; done
wait \$client
cat /run/trial/status
systemd-cgls --no-pager /system.slice/bulkheadd.service || true
# Returns before the service has read its options.
systemctl reload bulkheadd
until grep -q 'SIGHUP: log level' /run/trial/service.log; do :; done
until [[ \$(systemctl show -p ActiveState --value bulkheadd) == active ]]; do :; done
systemctl kill --kill-whom=main --signal=SIGUSR1 bulkheadd
until grep -q 'SIGUSR1: memory:' /run/trial/service.log; do :; done
# Killed, it comes back.
before=\$(systemctl show -p MainPID --value bulkheadd)
systemctl kill --kill-whom=main --signal=SIGKILL bulkheadd
until pid=\$(systemctl show -p MainPID --value bulkheadd) && [[ \$pid != 0 && \$pid != "\$before" ]] && as_user bulkhead health --target \$target; do :; done
systemctl stop bulkheadd
[[ \$(systemctl show -p Result --value bulkheadd) == success ]]
echo 0 >/run/trial/result
END
cat >"$work/off" <<'END'
#!/bin/bash
sync
# The guest's kernel has no machine to switch off: halting it ends the program.
echo o >/proc/sysrq-trigger
END
cat >"$work/init" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 run /run
mkdir /run/trial /run/etc
mount -t hostfs -o $work none /run/trial
for folder in /tmp /var/tmp /var/cache /var/lib /var/log; do mount -t tmpfs tmpfs \$folder; done
chmod 1777 /tmp /var/tmp
mount --bind /run/trial/bin /usr/local/bin
mount --bind /run/trial/passwd /etc/passwd
mount --bind /run/trial/group /etc/group
mount -t tmpfs -o mode=755 etc /mnt
mkdir /mnt/bulkhead
cp /run/trial/etc/* /mnt/bulkhead
mount --bind /mnt /opt
exec env -i PATH=\$PATH SYSTEMD_UNIT_PATH=/run/trial/units container=none \\
  /lib/systemd/systemd --unit=test.target --log-target=console --show-status=no
END
chmod +x "$work"/{test,off,init}
sed -i 's#/etc/bulkhead/#/opt/bulkhead/#g' "$work/units/bulkheadd.service"

echo "== systemd-analyze"
cp "$work/units/bulkheadd.service" "$work/verify.service"
sed -i "s#^ExecStart=/usr/local/bin#ExecStart=$work/bin#; /^User=\|^Group=/d" "$work/verify.service"
systemd-analyze verify "$work/verify.service"
# 0: nothing is exposed, 10: everything.
systemd-analyze security --offline=true --threshold=25 --no-pager "$HERE/bulkheadd.service" | tail -n 1

echo "== under $("$LINUX" --version)"
TMPDIR=$work timeout 300 "$LINUX" mem=512M rootfstype=hostfs rootflags=/ ro "init=$work/init" \
  con=null con0=null,fd:1 ssl=null quiet </dev/null >"$work/console" 2>&1 || true
# The kernel has room for the registers of the CPUs that it knows; those with AMX have more.
if [[ ! -s $work/result ]] && grep -q put_fp_registers "$work/console"; then
  echo "systemd: skipped: $LINUX cannot restore the registers of this CPU, so no process runs under it"
  exit 77
fi
if [[ $(cat "$work/result" 2>/dev/null) != 0 ]]; then
  tail -n 40 "$work"/{console,test.log,service.log} >&2 || true
  echo "systemd: failed in the guest; what it said is above" >&2
  exit 1
fi
grep -v '^+' "$work/test.log"
echo "systemd: passed"
