"""Hosts of a network: network namespaces, each joined to the trainer's, which is that of this process, by a link of its
own."""

import ctypes
import pathlib
import subprocess

from certificates import Authority

CLONE_NEWNET = 0x40000000  # sched.h
NOBODY = "02:00:00:00:00:01"  # a hardware address of no interface
FAKETIME = "/usr/$LIB/faketime/libfaketime.so.1"  # the loader's $LIB: of any machine


def _run(*words):
    subprocess.run(words, check=True)


def enter_a_network_of_its_own():
    """This thread, and what it starts from now on. Raises OSError where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    _run("ip", "link", "set", "lo", "up")


class Host:
    """Reached from the trainer's network at `address`, as if from so many hosts: `trainers` are their addresses. It is
    gone when it is closed, or when this process ends."""

    def __init__(self, number, trainers=1):
        self.address = f"10.77.{number}.2"
        self.trainers = [f"10.77.{number}.{101 + trainer}" for trainer in range(trainers)]
        self._link = f"host{number}"
        # Reads what never comes, so that it ends with this process.
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo there; read nothing"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        assert self._keeper.stdout.readline() == "there\n"
        self.command = ["nsenter", f"--net=/proc/{self._keeper.pid}/ns/net"]
        _run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", str(self._keeper.pid))
        for trainer in self.trainers:
            _run("ip", "address", "add", f"{trainer}/24", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        for words in (("address", "add", f"{self.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up"),
                      ("link", "set", "lo", "up")):
            self.run("ip", *words)

    def run(self, *words):
        _run(*self.command, *words)

    def limit(self, rate):
        """The rate of the link in both directions, in the words of tc (`16mbit`); None: none."""
        queue = ("tbf", "rate", rate, "burst", "256kb", "latency", "50ms") if rate else ("noqueue",)
        for run, link in ((_run, self._link), (self.run, "eth0")):
            run("tc", "qdisc", "replace", "dev", link, "root", *queue)

    def received(self):
        """Bytes that the trainer's end of the link has received."""
        for line in pathlib.Path("/proc/thread-self/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == self._link:
                return int(counters.split()[0])
        raise AssertionError(self._link)

    def cut(self):
        """What either side sends vanishes, and neither is told."""
        _run("ip", "neighbour", "replace", self.address, "lladdr", NOBODY, "dev", self._link, "nud", "permanent")
        self.run("ip", "neighbour", "replace", self.trainers[0], "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")

    def heal(self):
        _run("ip", "neighbour", "del", self.address, "dev", self._link)
        self.run("ip", "neighbour", "del", self.trainers[0], "dev", "eth0")

    def close(self):
        self._keeper.stdin.close()
        self._keeper.wait()


def mutual_tls(hosts, folder):
    """The options of a service on one of `hosts` that the trainer alone may use, and the trainer's environment."""
    authority = Authority(folder / "own", command=clock("-1d"))  # for hosts whose clocks are behind
    pem, key = authority.issue("replica", ",".join(f"IP:{host.address}" for host in hosts))
    trainer_pem, trainer_key = authority.issue("trainer", "DNS:trainer")
    options = ["--tls-cert", pem, "--tls-key", key, "--tls-client-ca", authority.pem,
               "--allow-stream", "trainer", "--allow-status", "trainer"]
    return options, {f"BULKHEAD_TLS_{name}": str(path) for name, path in
                     (("CA", authority.pem), ("CERT", trainer_pem), ("KEY", trainer_key))}


def clock(offset):
    """The words before a command that give it a clock which is off by so much: `+1h`, `-1d`."""
    return ["env", f"LD_PRELOAD={FAKETIME}", f"FAKETIME={offset}", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
