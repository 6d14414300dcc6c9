"""A proxy between a trainer and its service that can be told to misbehave: cut, delay, black-hole, stall."""

import os
import selectors
import socket
import threading
import time


class Proxy:
    """Forwards Unix-socket connections at `path` to the service's socket at `behind`.

    Shared memory goes past it: the arena door beside `path` is a link to the service's own, since descriptors
    are not bytes.
    """

    def __init__(self, path, behind):
        self.path, self.behind = str(path), str(behind)
        self._delay_until = 0.0
        self._hole_until = 0.0
        self._pairs = set()
        self._stalled = set()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        os.symlink(self.behind + ".arena", self.path + ".arena")
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends every connection that stands."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def delay(self, seconds):
        """Holds every byte back for a while, then lets it through in small pieces."""
        self._delay_until = time.monotonic() + seconds

    def black_hole(self, seconds):
        """Takes what comes and passes nothing on; the connections stay open, and are cut after it."""
        self._hole_until = time.monotonic() + seconds

    def stall(self):
        """Reads nothing more of the connections that stand, for good: neither end hears that of the other."""
        with self._lock:
            self._stalled |= self._pairs

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            service = socket.socket(socket.AF_UNIX)
            try:
                service.connect(self.behind)
            except OSError:  # the service is down just now
                client.close()
                continue
            with self._lock:
                self._pairs.add((client, service))
            threading.Thread(target=self._forward, args=(client, service), daemon=True).start()

    def _forward(self, client, service):
        selector = selectors.DefaultSelector()
        selector.register(client, selectors.EVENT_READ, service)
        selector.register(service, selectors.EVENT_READ, client)
        swallowed = False
        try:
            while True:
                for key, _ in selector.select(timeout=0.5):
                    if (client, service) in self._stalled:
                        self._closed.wait()
                        return
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    if time.monotonic() < self._hole_until:
                        swallowed = True  # bytes are missing from now on: this connection is lost
                        continue
                    if swallowed:
                        return
                    wait = self._delay_until - time.monotonic()
                    if wait > 0:
                        time.sleep(min(wait, 0.05))
                        for piece in range(0, len(data), 997):
                            key.data.sendall(data[piece : piece + 997])
                    else:
                        key.data.sendall(data)
                if swallowed and time.monotonic() >= self._hole_until:
                    return
        except OSError:
            pass
        finally:
            with self._lock:
                self._pairs.discard((client, service))
            client.close()
            service.close()
            selector.close()

    def close(self):
        self._closed.set()
        self._listener.close()
        self.cut()
