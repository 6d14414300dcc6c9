"""The objects of a folder, and S3's XML about them."""

import base64
import dataclasses
import hashlib
import os
import pathlib
import re
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import BinaryIO
from xml.sax.saxutils import escape

from object_signature import S3Error

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


def node(name: str, *content: str, xmlns: str = "") -> str:
    return f'<{name} xmlns="{xmlns}">{"".join(content)}</{name}>' if xmlns else f"<{name}>{''.join(content)}</{name}>"


def leaf(name: str, text: object) -> str:
    return node(name, escape(str(text), {"\r": "&#13;"}))


@dataclasses.dataclass
class Object:
    """An open object; the caller closes `file`."""

    file: BinaryIO
    size: int
    modified: float
    etag: str


class ObjectFolder:
    """FOLDER/<bucket>/<key…>. Thread-safe. No name leads out of FOLDER, not even a symbolic link."""

    def __init__(self, folder: os.PathLike | str):
        self._root = pathlib.Path(folder).resolve(strict=True)
        self._lock = threading.Lock()
        self._tags: dict[tuple, str] = {}  # by path, inode, size and time

    def open(self, bucket: str, key: str) -> Object:
        path = self._path(bucket, key)
        try:
            if not path.is_file():  # a FIFO would wait for its writer
                raise FileNotFoundError(path)
            file = path.open("rb")
        except OSError:
            raise S3Error(404, "NoSuchKey", "there is no such key", {"Key": key}) from None
        about = os.fstat(file.fileno())
        return Object(file, about.st_size, about.st_mtime, self._etag(path, file, about))

    def put(self, bucket: str, key: str, content: bytes) -> str:
        """Replaces the object at once; gives its ETag."""
        path = self._path(bucket, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._root, delete=False) as file:
                file.write(content)
            os.replace(file.name, path)
        except OSError as error:
            raise S3Error(400, "InvalidArgument", f"a folder cannot hold this key: {error}", {"Key": key}) from None
        return f'"{hashlib.md5(content).hexdigest()}"'

    def keys(self, bucket: str) -> list[str]:
        return sorted(self._keys(self.bucket(bucket)))

    def bucket(self, name: str) -> pathlib.Path:
        path = self._root / name
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name) or not path.is_dir() or not self._is_inside(path):
            raise S3Error(404, "NoSuchBucket", "there is no such bucket", {"BucketName": name})
        return path

    def _keys(self, home: pathlib.Path) -> Iterator[str]:
        for parent, _, names in os.walk(home):
            for path in (pathlib.Path(parent, name) for name in names):
                if path.is_file() and (not path.is_symlink() or self._is_inside(path)):
                    yield str(path.relative_to(home))

    def _path(self, bucket: str, key: str) -> pathlib.Path:
        path = self.bucket(bucket).joinpath(*key.split("/"))
        strange = "\0" in key or any(part in ("", ".", "..") for part in key.split("/"))
        if strange or not self._is_inside(path):
            raise S3Error(404, "NoSuchKey", "no file has such a key", {"Key": key})
        return path

    def _is_inside(self, path: pathlib.Path) -> bool:
        return pathlib.Path(os.path.realpath(path)).is_relative_to(self._root)

    def _etag(self, path: pathlib.Path, file: BinaryIO, about: os.stat_result) -> str:
        version = (path, about.st_ino, about.st_size, about.st_mtime_ns)
        with self._lock:
            known = self._tags.get(version)
        if not known:
            known = f'"{hashlib.file_digest(file, "md5").hexdigest()}"'
            with self._lock:
                self._tags[version] = known
        return known


def list_objects(folder: ObjectFolder, bucket: str, query: dict[str, str], page_size: int) -> str:
    """The XML of ListObjectsV2; a page has at most `page_size` entries."""
    prefix, delimiter, start_after = (query.get(name, "") for name in ("prefix", "delimiter", "start-after"))
    token = query.get("continuation-token", "")
    try:
        asked = int(query.get("max-keys", 1000))
        after = os.fsdecode(base64.urlsafe_b64decode(token))
    except ValueError:
        raise S3Error(400, "InvalidArgument", "max-keys or continuation-token is wrong") from None
    limit, entries, truncated = min(asked, page_size, 1000), [], False
    for key in folder.keys(bucket):
        if not key.startswith(prefix) or key <= start_after:
            continue
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if end < 0 else key[: end + len(delimiter)]
        if name <= after or (entries and entries[-1][0] == name):
            continue
        if len(entries) >= limit:
            truncated = limit > 0
            break
        entries.append((name, end >= 0))

    url = query.get("encoding-type") == "url"

    def encoded(text: str) -> str:  # S3 writes a blank as a plus sign here
        return urllib.parse.quote_plus(os.fsencode(text), safe="/") if url else text

    def content(key: str) -> str:
        found = folder.open(bucket, key)
        found.file.close()
        modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.modified))
        return node("Contents", leaf("Key", encoded(key)), leaf("LastModified", modified), leaf("ETag", found.etag),
                    leaf("Size", found.size), leaf("StorageClass", "STANDARD"))  # fmt: skip

    parts = [leaf("Name", bucket), leaf("Prefix", encoded(prefix)), leaf("MaxKeys", asked),
             leaf("KeyCount", len(entries)), leaf("IsTruncated", str(truncated).lower())]  # fmt: skip
    for name, value in (("Delimiter", encoded(delimiter)), ("StartAfter", encoded(start_after)),
                        ("ContinuationToken", token), ("EncodingType", "url" if url else "")):  # fmt: skip
        if value:
            parts.append(leaf(name, value))
    if truncated:
        parts.append(leaf("NextContinuationToken", base64.urlsafe_b64encode(os.fsencode(entries[-1][0])).decode()))
    for name, is_prefix in entries:
        parts.append(node("CommonPrefixes", leaf("Prefix", encoded(name))) if is_prefix else content(name))
    return node("ListBucketResult", *parts, xmlns=NAMESPACE)
