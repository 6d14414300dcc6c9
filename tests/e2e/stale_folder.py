"""A file system (FUSE) whose open files turn stale, as those of a network mount do whose server was restarted.

    stale_folder.py MIRRORED MOUNTPOINT ERROR

shows the files of MIRRORED. Once MIRRORED/.stale exists, whatever is open fails to be read with ERROR (ESTALE, EIO) for
ever; what is opened afterwards reads well.
"""

import errno
import os
import sys

try:
    import fusepy as fuse  # Debian's name
except ImportError:
    import fuse


class StaleFolder(fuse.Operations):
    def __init__(self, mirrored, error):
        self.mirrored = mirrored
        self.error = error
        self.files = {}  # handle → (descriptor, whether it was opened before the files turned stale)

    def _is_stale(self):
        return os.path.exists(self.mirrored + "/.stale")

    def getattr(self, path, fh=None):
        info = os.lstat(self.mirrored + path)
        return {key: getattr(info, key) for key in
                ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.mirrored + path)]

    def open(self, path, flags):
        descriptor = os.open(self.mirrored + path, os.O_RDONLY)
        self.files[descriptor] = not self._is_stale()
        return descriptor

    def read(self, path, size, offset, fh):
        if self.files[fh] and self._is_stale():
            raise fuse.FuseOSError(self.error)
        return os.pread(fh, size, offset)

    def release(self, path, fh):
        del self.files[fh]
        os.close(fh)


if __name__ == "__main__":
    # Every read comes here: no page of a file is kept.
    folder = StaleFolder(sys.argv[1], getattr(errno, sys.argv[3]))
    fuse.FUSE(folder, sys.argv[2], foreground=True, ro=True, direct_io=True, nothreads=True)
