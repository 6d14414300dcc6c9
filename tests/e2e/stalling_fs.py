"""A real file system that stops answering: BACKING at MOUNTPOINT through FUSE, whose calls wait as long as STALLED exists,
and which reads no more than BYTES_A_SECOND if that is given.

Run as a program of its own: whoever waits for it hangs in the kernel, as it would for a disk or a network share.
"""

import contextlib
import errno
import os
import subprocess
import sys
import time

import pytest


class Mount:
    """BACKING mounted by this file as a program; `stall()` and `go_on()`."""

    def __init__(self, folder):
        self.backing, self.path, self._stalled = folder / "backing", folder / "mount", folder / "stalled"
        self.backing.mkdir(mode=0o700)
        self.path.mkdir()
        self._process = subprocess.Popen([sys.executable, __file__, self.backing, self.path, self._stalled])
        while not os.path.ismount(self.path):
            assert self._process.poll() is None, "the file system could not be mounted"
            time.sleep(0.01)

    def stall(self):
        self._stalled.touch()

    def await_caller(self):
        """Until somebody waits for an answer."""
        while not os.path.exists(f"{self._stalled}.waiting"):
            time.sleep(0.01)

    def go_on(self):
        with contextlib.suppress(FileNotFoundError):
            self._stalled.unlink()

    def end(self):
        # Calls that still wait end with an error then; before, not even a signal could end them.
        self._process.kill()
        self._process.wait()
        subprocess.run(["umount", "-l", self.path], check=False)


def need_fuse():
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse here, so no file system that could stop answering")


def serve(backing, mountpoint, stalled, bytes_a_second="inf"):
    import fusepy

    def answers(call):
        def when_it_may(self, *arguments):
            while os.path.exists(stalled):
                open(stalled + ".waiting", "w").close()
                time.sleep(0.01)
            try:
                return call(self, *arguments)
            except OSError as error:
                raise fusepy.FuseOSError(error.errno or errno.EIO) from None

        return when_it_may

    class PassingOn(fusepy.Operations):
        def _at(self, path):
            return backing + path

        @answers
        def getattr(self, path, handle=None):
            found = os.lstat(self._at(path))
            return {name: getattr(found, name) for name in (
                "st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}

        @answers
        def readdir(self, path, handle):
            return [".", "..", *os.listdir(self._at(path))]

        @answers
        def open(self, path, flags):
            return os.open(self._at(path), flags)

        @answers
        def create(self, path, mode, info=None):
            return os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)

        @answers
        def read(self, path, size, offset, handle):
            data = os.pread(handle, size, offset)
            time.sleep(len(data) / float(bytes_a_second))
            return data

        @answers
        def write(self, path, data, offset, handle):
            return os.pwrite(handle, data, offset)

        @answers
        def truncate(self, path, length, handle=None):
            os.truncate(self._at(path), length)

        @answers
        def release(self, path, handle):
            os.close(handle)

        @answers
        def unlink(self, path):
            os.unlink(self._at(path))

        @answers
        def rename(self, old, new):
            os.rename(self._at(old), self._at(new))

        @answers
        def mkdir(self, path, mode):
            os.mkdir(self._at(path), mode)

        @answers
        def chmod(self, path, mode):
            os.chmod(self._at(path), mode)

        @answers
        def statfs(self, path):
            found = os.statvfs(self._at(path))
            return {name: getattr(found, name) for name in ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_files")}

    # Nothing is remembered by the kernel, so that every call comes here.
    fusepy.FUSE(PassingOn(), mountpoint, foreground=True, direct_io=True, attr_timeout=0, entry_timeout=0)


if __name__ == "__main__":
    serve(*sys.argv[1:])
