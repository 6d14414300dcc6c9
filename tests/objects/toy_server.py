"""A store of objects for the tests of server/objects, at a port that it prints.

It speaks as much of S3 as they need, for any bucket, in path style. A request below /_ is a command of the test:

Objects are put by PUT /BUCKET/KEY, too, whose X-Amz-Content-Sha256 must be right.

  PUT /_object/BUCKET/KEY          the body becomes this object
  PUT /_faults/BUCKET              JSON: the faults of the next requests for this bucket, one each, in order. {} is none.
                                   Without a bucket: of those for buckets that were given none.
  GET /_log                        "METHOD path" of all requests but commands, one a line; with " + " and the headers
                                   Range, If-Match, Authorization (its first word and key) and the like

Faults: {"status": 503, "code": "SlowDown", "headers": {…}}, {"do": "reset"}, {"do": "half"}, {"do": "stall"},
{"do": "drip"}, {"do": "etag"}, {"do": "other_range"}, {"do": "whole"}, {"do": "error_in_200"}, {"do": "smaller"},
{"do": "many_headers"}, {"do": "bad_xml"}; of listings {"do": "same_page"}, {"do": "no_start_after"}, {"do": "empty_page"}.
With "stays": true it is the fault of all requests from then on.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import ssl
import struct
import sys
import threading
import urllib.parse
from xml.sax.saxutils import escape

LOCK = threading.Lock()
OBJECTS: dict[str, bytes] = {}
ANSWERS: dict[str, tuple[int, bytes]] = {}  # of other services, by path
FAULTS: dict[str, list[dict]] = {}  # by bucket
LOG: list[str] = []
STOPPED = threading.Event()
PAGE = 2


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str = "", headers: dict[str, str] | None = None) -> None:
        region = f"<Region>{headers['region']}</Region>" if headers and "region" in headers else ""
        body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>secret words</Message>{region}</Error>'
        self.answer(status, body.encode() if code else b"", {"Content-Type": "application/xml", **(headers or {})})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urllib.parse.unquote(self.path)
        with LOCK:
            if path.startswith("/_object/"):
                OBJECTS[path.removeprefix("/_object")] = body
            elif path.startswith("/_answer/"):
                ANSWERS[path.removeprefix("/_answer")] = (200, body)
            elif path.startswith("/_faults/"):
                FAULTS[path.removeprefix("/_faults/")] = json.loads(body)
        if path.startswith("/_"):
            self.answer(200)
        else:
            self.serve(body)

    def do_POST(self) -> None:
        self.serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def do_HEAD(self) -> None:
        self.serve(b"")

    def do_GET(self) -> None:
        if self.path == "/_log":
            with LOCK:
                self.answer(200, "\n".join(LOG).encode())
        else:
            self.serve(b"")

    def note(self, body: bytes) -> None:
        words = [f"{self.command} {self.path}"]
        for name in ("Range", "If-Match", "X-Amz-Security-Token", "X-aws-ec2-metadata-token", "Metadata-Flavor"):
            if name in self.headers:
                words.append(f"{name}: {self.headers[name]}")
        if authorization := self.headers.get("Authorization"):
            words.append("Authorization: " + authorization.split("/aws4_request")[0])
        if body:
            words.append(body.decode())
        LOG.append(" + ".join(words))

    def take_fault(self, bucket: str) -> dict:
        faults = FAULTS.get(bucket, FAULTS.get("", []))
        return (faults[0] if faults[0].get("stays") else faults.pop(0)) if faults else {}

    def serve(self, body: bytes) -> None:
        url = urllib.parse.urlsplit(self.path)
        path, query = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with LOCK:
            self.note(body)
            fault = self.take_fault(path.split("/")[1])
            data, other = OBJECTS.get(path), ANSWERS.get(path)
        if self.has_failed(fault):
            return
        if other is not None:
            self.answer(other[0], other[1])
        elif self.command == "PUT":
            self.store(path, body)
        elif "list-type" in query:
            self.list(path.strip("/"), query, fault.get("do", ""))
        elif data is None:
            self.error(404, "NoSuchKey")
        else:
            self.send(data, fault)

    def store(self, path: str, body: bytes) -> None:
        if self.headers.get("X-Amz-Content-Sha256", "") not in ("", hashlib.sha256(body).hexdigest()):
            return self.error(400, "XAmzContentSHA256Mismatch")
        if path.startswith("/NoSuchBucket/"):
            return self.error(404, "NoSuchBucket")
        with LOCK:
            OBJECTS[path] = body
        self.answer(200, headers={"ETag": '"' + hashlib.md5(body).hexdigest() + '"'})
        return None

    def has_failed(self, fault: dict) -> bool:
        action = fault.get("do")
        if "status" in fault:
            self.error(fault["status"], fault.get("code", ""), fault.get("headers"))
        elif action == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif action == "stall":
            STOPPED.wait(30)
            self.close_connection = True
        elif action == "many_headers":
            self.answer(200, b"", {f"X-{i}": "x" * 1000 for i in range(90)})
        elif action == "error_in_200":
            self.error(200, "InternalError")
        elif action == "bad_xml":
            self.answer(200, b'<!DOCTYPE a [<!ENTITY e "x">]><ListBucketResult>&e;</ListBucketResult>')
        else:
            return False
        return True

    def send(self, data: bytes, fault: dict) -> None:
        action = fault.get("do")
        etag = '"' + hashlib.md5(data).hexdigest() + '"'
        if action == "etag":
            etag = '"another"'
        if action == "smaller":
            data = data[:-1]
        headers = {"ETag": etag, "Last-Modified": "Mon, 12 Oct 2009 17:50:30 GMT"}
        if self.headers.get("If-Match", etag) != etag and action != "etag":
            return self.error(412, "PreconditionFailed")
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match is None or action == "whole":
            return self.answer(200, data, headers)
        first, last = int(match[1]), min(int(match[2]), len(data) - 1)
        if action == "other_range":
            first += 1
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        part = data[first : last + 1]
        if action == "half":
            self.answer(206, part[: len(part) // 2], headers, len(part))
            self.close_connection = True
        elif action == "drip":
            self.answer(206, part[:1], headers, len(part))
            STOPPED.wait(30)
            self.close_connection = True
        else:
            self.answer(206, part, headers)
        return None

    def list(self, bucket: str, query: dict[str, str], fault: str) -> None:
        after = query.get("continuation-token") or query.get("start-after", "")
        if fault == "same_page" or (fault == "no_start_after" and "continuation-token" not in query):
            after = ""
        prefix, delimiter = query["prefix"], query.get("delimiter")
        found: dict[str, str] = {}  # what the page shows, with the element's name
        with LOCK:
            keys = sorted(k.removeprefix(f"/{bucket}/") for k in OBJECTS if k.startswith(f"/{bucket}/{prefix}"))
            etags = {k: hashlib.md5(OBJECTS[f"/{bucket}/{k}"]).hexdigest() for k in keys}
            sizes = {k: len(OBJECTS[f"/{bucket}/{k}"]) for k in keys}
        for key in keys:
            head, slash, _ = key[len(prefix) :].partition("/")
            shown = prefix + head + slash if delimiter and slash else key
            if shown > after:
                found[shown] = "prefix" if delimiter and slash else "object"
        page, rest = list(found.items())[:PAGE], list(found)[PAGE:]
        last = page[-1][0] if page else ""
        if fault == "empty_page":
            page, rest, last = [], ["more"], f"{after}!"
        entries = "".join(
            f"<CommonPrefixes><Prefix>{urllib.parse.quote(k)}</Prefix></CommonPrefixes>"
            if kind == "prefix"
            else f"<Contents><Key>{urllib.parse.quote(k)}</Key><LastModified>2009-10-12T17:50:30.123Z</LastModified>"
            f"<ETag>&quot;{etags[k]}&quot;</ETag><Size>{sizes[k]}</Size></Contents>"
            for k, kind in page
        )
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if rest else ""
        self.answer(
            200,
            f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{'true' if rest else 'false'}</IsTruncated>{token}{entries}"
            f"</ListBucketResult>".encode(),
        )


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    if sys.argv[1:]:  # a file with a key and its certificate
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    server.serve_forever()
