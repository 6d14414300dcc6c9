"""An object store in front of a folder, for clients that read s3://, gs:// and http://. It fails when it is told to.

    with ObjectServer(folder) as server:  # folder/<bucket>/<key…>
        server.fail(next_requests=2, status=503, key="shard-0003")
        subprocess.run(client, env={**os.environ, **server.environment()})
        assert server.count(method="GET", key="shard-0003") == 3

It speaks path-style S3 over HTTP/1.1 with kept connections: GET, HEAD and PUT of objects, ListObjectsV2, and the STS's
AssumeRoleWithWebIdentity. Run as a program, it serves a folder until it is interrupted.
"""

import argparse
import contextlib
import dataclasses
import email.utils
import http.server
import io
import os
import pathlib
import re
import shlex
import signal
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import BinaryIO, Self

from object_faults import Faults, Request, Throttle
from object_folder import ObjectFolder, leaf, list_objects, node
from object_signature import BearerCheck, Credentials, Message, S3Error, SignatureCheck

STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST


@dataclasses.dataclass
class Answer:
    """A part of `file`, which has `size` bytes. `shift` makes it the bytes of another offset."""

    status: int
    headers: dict[str, str]
    file: BinaryIO
    begin: int
    length: int
    size: int
    shift: int = 0

    @classmethod
    def of(cls, status: int, text: str = "", headers: dict[str, str] | None = None) -> "Answer":
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode("utf-8", "replace") if text else b""
        headers = {**({"Content-Type": "application/xml"} if text else {}), **(headers or {})}
        return cls(status, headers, io.BytesIO(body), 0, len(body), len(body))

    def read(self, offset: int, count: int) -> bytes:
        self.file.seek((self.begin + offset + self.shift) % self.size)
        return self.file.read(count)


class _Handler(http.server.BaseHTTPRequestHandler):
    """A connection. _serve is the way of a request: the log, a fault, the signature, the answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Listener"

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        store = self.server.store
        path, _, query_text = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query_text, keep_blank_values=True, errors="surrogateescape"))
        request = self._request(path, query)
        store.log(request)
        if "transfer-encoding" in self.headers:
            self.close_connection = True
            error = S3Error(411, "MissingContentLength", "the body is chunked")
            return self._send(request, self._error(request, error))
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.wait(store.take_fault(request, delays=True).seconds)
        fault = store.take_fault(request)
        kind = fault.kind
        if kind == "reset":
            return self._reset()
        if kind == "fail":
            error = S3Error(fault.status, fault.code, "a fault of the test", headers=fault.headers)
            return self._send(request, self._error(request, error))
        try:
            if store.check and request.method != "STS":
                store.check.check(Message(self.command, self.path, self.headers, body))
            answer = self._answer(request, query, body, whole=kind == "whole")
        except S3Error as error:
            answer = self._error(request, error)
        if kind == "wrong header" and answer.status == 206:
            first, last = answer.begin + fault.shift, answer.begin + answer.length - 1 + fault.shift
            answer.headers["Content-Range"] = f"bytes {first}-{last}/{answer.size}"
        if kind == "wrong body":
            answer.shift = fault.shift
        self._send(request, answer, stop_half=kind in ("cut", "reset in the middle"))
        if kind == "reset in the middle":
            self._reset()

    do_GET = do_HEAD = do_PUT = do_POST = _serve

    def _request(self, path: str, query: dict[str, str]) -> Request:
        # S3 takes a plus sign in a path for a blank. Other stores do not.
        raw = path.replace("+", " ") if isinstance(self.server.store.check, SignatureCheck) else path
        decoded = os.fsdecode(urllib.parse.unquote_to_bytes(raw.encode("latin-1")))
        bucket, _, key = decoded.removeprefix("/").partition("/")
        method = self.command
        if method == "GET" and bucket and not key:
            method, key = "LIST", query.get("prefix", "")
        if method == "POST" and not bucket:
            method = "STS"
        request = Request(method, bucket, key, dict(self.headers.items()))
        if asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("range") or ""):
            first, last = asked.groups()
            if first and (not last or int(first) <= int(last)):
                request.begin, request.end = int(first), int(last) if last else None
            elif last and not first:
                request.begin = -int(last) or sys.maxsize  # so many at the end; no object has none of them
        return request

    def _answer(self, request: Request, query: dict[str, str], body: bytes, whole: bool) -> Answer:
        store = self.server.store
        if request.method == "STS":
            return Answer.of(200, store.sts.assume(dict(urllib.parse.parse_qsl(body.decode("latin-1")))))
        if request.method == "LIST" and query.get("list-type") == "2":
            return Answer.of(200, list_objects(store.objects, request.bucket, query, store.page_size))
        if request.method == "HEAD" and request.bucket and not request.key:
            store.objects.bucket(request.bucket)
            return Answer.of(200)
        if request.method == "PUT" and request.key:
            return Answer.of(200, headers={"ETag": store.objects.put(request.bucket, request.key, body)})
        if request.method in ("GET", "HEAD") and request.key:
            return self._object(request, whole)
        raise S3Error(501, "NotImplemented", f"{self.command} {self.path} is not known here")

    def _object(self, request: Request, whole: bool) -> Answer:
        found = self.server.store.objects.open(request.bucket, request.key)
        headers = {
            "Content-Type": "application/octet-stream",
            "Last-Modified": email.utils.formatdate(found.modified, usegmt=True),
            "ETag": found.etag,
            "Accept-Ranges": "bytes",
        }
        answer = Answer(200, headers, found.file, 0, found.size, found.size)
        wanted = [tag.strip() for tag in (self.headers.get("if-match") or "*").split(",")]
        if "*" not in wanted and found.etag not in wanted:
            found.file.close()
            raise S3Error(412, "PreconditionFailed", "the object is another one", {"Condition": "If-Match"})
        if request.begin is None or whole:
            return answer
        if request.begin >= found.size or not found.size:
            found.file.close()
            headers = {"Content-Range": f"bytes */{found.size}"}
            raise S3Error(416, "InvalidRange", "no such range", {"ActualObjectSize": str(found.size)}, headers)
        last = found.size - 1
        request.begin = request.begin if request.begin >= 0 else max(0, found.size + request.begin)
        request.end = last if request.end is None else min(request.end, last)
        answer.status, answer.begin, answer.length = 206, request.begin, request.end + 1 - request.begin
        headers["Content-Range"] = f"bytes {request.begin}-{request.end}/{found.size}"
        return answer

    def _error(self, request: Request, error: S3Error) -> Answer:
        details = (leaf(name, value) for name, value in error.details.items())
        xml = node("Error", leaf("Code", error.code), leaf("Message", error), *details, leaf("Resource", self.path))
        if request.method == "STS":
            xml = node("ErrorResponse", xml, xmlns=STS_NAMESPACE)
        return Answer.of(error.status, xml, error.headers)

    def _send(self, request: Request, answer: Answer, stop_half: bool = False) -> None:
        with answer.file:
            request.status = answer.status
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": answer.length}.items():
                self.send_header(name, str(value))
            self.end_headers()
            sent, stop = 0, answer.length // 2 if stop_half else answer.length
            while sent < stop and self.command != "HEAD":
                chunk = answer.read(sent, min(self.server.store.throttle.chunk_bytes(), stop - sent))
                self.server.wait(self.server.store.throttle.reserve(len(chunk)))
                sent += len(chunk)
                request.bytes_sent += len(chunk)  # before a reader could see them
                self.wfile.write(chunk)
                if not chunk:  # the file has become shorter
                    self.close_connection = True
                    return
        self.close_connection |= stop_half

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.close_connection = True


class _Listener(http.server.ThreadingHTTPServer):
    """One life of the server. close() ends it with all its connections."""

    request_queue_size = 128

    def __init__(self, store: "ObjectServer", port: int):
        self.store = store
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._dead = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait(self, seconds: float) -> None:
        if seconds > 0 and self._dead.wait(seconds):
            raise ConnectionAbortedError("the server has died")

    def close(self) -> None:
        self._dead.set()
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # its client may have gone
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not TLS's: another thread may be using that

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's asks for the name of the host

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:
        try:
            if self.store.tls:  # here, since a slow handshake must not hold up others
                request = self.store.tls.wrap_socket(request, server_side=True)
        except OSError:
            return request.close()
        with self._lock:
            self._open.add(request)
        if self._dead.is_set():
            return self.shutdown_request(request)
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:
        with self._lock:
            self._open.discard(request)
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(RESET)) == RESET:
            self.close_request(request)  # shutdown() would send FIN before RST
        else:
            super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # those are of clients that have gone
            self.store.errors.append(error)


class WebIdentities:
    """The STS: gives temporary credentials for a web identity token. Tests may set every attribute."""

    def __init__(self, check: SignatureCheck, clock: Callable[[], float]):
        self._check, self._clock = check, clock
        self.token = "web-identity"
        self.lifetime_seconds = 3600.0

    def environment(self, token_file: pathlib.Path) -> dict[str, str]:
        """The variables that lead a client here for its credentials. Writes the token's file."""
        token_file.write_text(self.token)
        return {"AWS_ROLE_ARN": "arn:aws:iam::1:role/reader", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file)}

    def assume(self, form: dict[str, str]) -> str:
        if form.get("Action") != "AssumeRoleWithWebIdentity" or not form.get("RoleArn"):
            raise S3Error(400, "ValidationError", "wants Action=AssumeRoleWithWebIdentity and a RoleArn")
        if form.get("WebIdentityToken") != self.token:
            raise S3Error(400, "InvalidIdentityToken", "the web identity token is wrong")
        given = Credentials.fresh(temporary=True, expires=self._clock() + self.lifetime_seconds)
        self._check.add(given)
        expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(given.expires))
        credentials = node(
            "Credentials",
            leaf("AccessKeyId", given.access_key_id),
            leaf("SecretAccessKey", given.secret_access_key),
            leaf("SessionToken", given.session_token),
            leaf("Expiration", expiration),
        )
        action = "AssumeRoleWithWebIdentity"
        return node(f"{action}Response", node(f"{action}Result", credentials), xmlns=STS_NAMESPACE)


class ObjectServer(Faults):
    """Serves from `with` to its end. All methods are thread-safe.

    `signed`: requests need Signature V4. `bearer`: they need this token instead. `session_token`: the credentials have
    one. `clock`: seconds since 1970, for skew and expiry.
    """

    def __init__(
        self,
        folder: os.PathLike | str,
        *,
        signed: bool = True,
        bearer: str | None = None,
        session_token: bool = False,
        region: str = "eu-central-1",
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        rate: float | None = None,
        clock: Callable[[], float] = time.time,
    ):
        super().__init__()
        self.objects, self.tls, self.region, self._port = ObjectFolder(folder), tls, region, port
        self.page_size = 1000  # entries of a listing's page; tests may set it
        self.throttle = Throttle(rate)
        self.errors: list[BaseException] = []  # of this server, raised at the end
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        signatures = SignatureCheck(region, clock, Credentials.fresh(session_token))
        self.sts = WebIdentities(signatures, clock)
        self.check = BearerCheck(bearer) if bearer else signatures if signed else None

    def __enter__(self) -> Self:
        # Bound and never listening: nobody else gets the port while the server is dead.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", self._port))
        self.port = self._reserved.getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        self._listener: _Listener | None = None
        self.revive()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._reserved.close()
        if self.errors:
            raise self.errors[0]

    def environment(self) -> dict[str, str]:
        """The variables that lead a client here, with the credentials that are valid now."""
        variables = {"ENDPOINT_URL": self.url}
        if isinstance(self.check, SignatureCheck):
            main = self.check.main
            variables |= {"ACCESS_KEY_ID": main.access_key_id, "SECRET_ACCESS_KEY": main.secret_access_key}
            variables |= {"SESSION_TOKEN": main.session_token} if main.session_token else {}
        both = {f"{store}_{name}": value for store in ("AWS", "GS") for name, value in variables.items()}
        return {**both, "AWS_REGION": self.region}

    @property
    def requests(self) -> list[Request]:
        """The log, in the order of arrival."""
        with self._lock:
            return list(self._requests)

    def log(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)

    def bytes_sent(self, key: str = "") -> int:
        return sum(request.bytes_sent for request in self.requests if request.matches(None, key))

    def count(self, method: str | None = None, key: str = "") -> int:
        return sum(request.matches(method, key) for request in self.requests)

    def rate(self, bytes_per_second: float | None) -> None:
        """Of all connections together; None: as fast as it goes."""
        self.throttle.set(bytes_per_second)

    def expire_credentials(self) -> None:
        """Those given out so far expire; environment(), or the check's `token`, has new ones."""
        if self.check:
            self.check.expire()

    def die(self) -> None:
        """Ends all connections and refuses new ones."""
        if self._listener:
            self._listener.close()
        self._listener = None

    def revive(self) -> None:
        """On the same port; what was due stays due."""
        self._listener = self._listener or _Listener(self, self.port)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Serves FOLDER/<bucket>/<key…> as an object store, and prints what a client has to export.",
        epilog="example: python3 tests/e2e/object_server.py /data/store --port 9000 --rate 50000000",
    )
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="of 127.0.0.1; the default is a free one")
    parser.add_argument("--no-signatures", action="store_true", help="answer anybody, as a web server does")
    parser.add_argument("--rate", type=float, metavar="BYTES", help="per second, of all connections together")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder; make it, with a folder in it for each bucket")
    if options.rate is not None and options.rate <= 0:
        parser.error("--rate has to be above 0")
    stops = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # before the threads begin, which inherit it
    with ObjectServer(options.folder, signed=not options.no_signatures, port=options.port, rate=options.rate) as server:
        exports = (f"export {name}={shlex.quote(value)}" for name, value in server.environment().items())
        print("\n".join(exports), flush=True)
        signal.sigwait(stops)


if __name__ == "__main__":
    main()
