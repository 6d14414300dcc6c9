"""Services that start on one address at the same moment."""

import os
import select
import socket
import subprocess

from conftest import BIN

# Between seeing that nobody listens on a socket and removing it, something else may run for a while.
SLOW_UNLINK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
int unlink(const char *path) {
  size_t length = strlen(path);
  if (length > 5 && strcmp(path + length - 5, ".sock") == 0) usleep(500000);
  return ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
}
"""


def start(folder, number, target, environment):
    """A service, and what says that it is ready."""
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [BIN / "bulkheadd", "--listen", target, "--ready-fd", str(child_end), "--cache-dir", folder / f"cache{number}"],
        pass_fds=(child_end,),
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(child_end)
    return process, ready


def test_one_of_them_has_a_stale_socket(folder, preloaded):
    path, slow_unlink = folder / "s.sock", preloaded(SLOW_UNLINK)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    for _ in range(2):  # each round leaves its winner's socket to the next one
        services = [start(folder, number, f"unix:{path}", slow_unlink) for number in range(4)]
        winners = []
        for process, ready in services:
            # The pipe is closed without a word by one that ends.
            assert select.select([ready], [], [], 60)[0]
            if os.read(ready, 100).startswith(b"ready"):
                winners.append(process)
            else:
                assert process.wait(60) == 1
                said = process.stderr.read()
                assert "another service" in said and str(path) in said, said
            os.close(ready)
        for process, _ in services:
            process.kill()
            process.wait()
            process.stderr.close()
        assert len(winners) == 1
