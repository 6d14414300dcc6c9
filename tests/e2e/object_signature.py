"""Who may read an object store: AWS Signature Version 4 in the Authorization header, or a bearer token.

The check is written from "Authenticating Requests (AWS Signature Version 4)" of Amazon's S3 API reference. It shares no
code with a client, so that a client's error cannot hide in it.
"""

import calendar
import dataclasses
import hashlib
import hmac
import math
import re
import secrets
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping

SKEW_SECONDS = 15 * 60
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/s3/aws4_request, *"
    r"SignedHeaders=([a-z0-9;-]+), *Signature=([0-9a-f]{64})"
)


class S3Error(Exception):
    """What a store answers instead of an object. `details`: further elements of the XML; `headers`: of the answer."""

    def __init__(self, status: int, code: str, message: str, details: dict | None = None, headers: dict | None = None):
        super().__init__(message)
        self.status, self.code, self.details, self.headers = status, code, details or {}, headers or {}


@dataclasses.dataclass(frozen=True)
class Message:
    """A request as it came: `target` is still encoded; `headers` finds names in any case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclasses.dataclass(frozen=True)
class Credentials:
    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    expires: float = math.inf  # seconds since 1970

    @classmethod
    def fresh(cls, temporary: bool = False, expires: float = math.inf) -> "Credentials":
        name = ("ASIA" if temporary else "AKIA") + secrets.token_hex(8).upper()
        return cls(name, secrets.token_urlsafe(30), secrets.token_urlsafe(40) if temporary else "", expires)


def _encoded_once(text: str, safe: str) -> str:
    """`text` decoded and encoded by S3's rules. S3 takes a plus sign for a blank, in a path, too."""
    decoded = urllib.parse.unquote_to_bytes(text.replace("+", " ").encode("latin-1"))
    return urllib.parse.quote(decoded, safe=safe + "-_.~")


def canonical_request(message: Message, signed_headers: str, payload_hash: str) -> str:
    path, _, query = message.target.partition("?")
    pairs = (part.partition("=") for part in query.split("&") if part)
    values = (" ".join((message.headers.get(name) or "").split()) for name in signed_headers.split(";"))
    return "\n".join((
        message.method,
        _encoded_once(path, safe="/"),
        "&".join("=".join(pair) for pair in sorted((_encoded_once(k, ""), _encoded_once(v, "")) for k, _, v in pairs)),
        *(f"{name}:{value}" for name, value in zip(signed_headers.split(";"), values)),
        "",
        signed_headers,
        payload_hash,
    ))  # fmt: skip


def string_to_sign(canonical: str, date: str, region: str) -> str:
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    return f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode('latin-1')).hexdigest()}"


def signature(secret: str, text: str, date: str, region: str) -> str:
    key = b"AWS4" + secret.encode()
    for part in (date[:8], region, "s3", "aws4_request", text):
        key = hmac.digest(key, part.encode("latin-1"), "sha256")
    return key.hex()


class SignatureCheck:
    """Holds the credentials that it accepts. Thread-safe. `region`: or "auto", as Google's store is addressed."""

    def __init__(self, region: str, clock: Callable[[], float], main: Credentials):
        self._regions, self._clock = (region, "auto"), clock
        self._lock = threading.Lock()
        self._known = {main.access_key_id: main}
        self.main = main

    def add(self, credentials: Credentials) -> None:
        with self._lock:
            self._known[credentials.access_key_id] = credentials

    def expire(self) -> None:
        """All that are known expire; `main` is new."""
        with self._lock:
            self._known = {name: dataclasses.replace(old, expires=-math.inf) for name, old in self._known.items()}
            self.main = Credentials.fresh(bool(self.main.session_token))
            self._known[self.main.access_key_id] = self.main

    def check(self, message: Message) -> None:
        """Raises S3Error for a request that S3 would refuse."""
        header = message.headers.get("authorization")
        if not header:
            raise S3Error(403, "AccessDenied", "the request is not signed")
        fields = AUTHORIZATION.fullmatch(header)
        if not fields:
            raise S3Error(400, "AuthorizationHeaderMalformed", "the Authorization header is not one of Signature V4")
        name, day, region, signed_headers, claimed = fields.groups()
        with self._lock:
            credentials = self._known.get(name)
        if not credentials:
            raise S3Error(403, "InvalidAccessKeyId", "no such access key", {"AWSAccessKeyId": name})
        if region not in self._regions:
            raise S3Error(400, "AuthorizationHeaderMalformed", f"wrong region {region}", {"Region": self._regions[0]})
        date = self._checked_date(message, day)
        self._check_signed_names(message, signed_headers.split(";"))
        payload_hash = self._checked_payload(message)
        canonical = canonical_request(message, signed_headers, payload_hash)
        text = string_to_sign(canonical, date, region)
        if not hmac.compare_digest(signature(credentials.secret_access_key, text, date, region), claimed):
            details = {"CanonicalRequest": canonical, "StringToSign": text}
            raise S3Error(403, "SignatureDoesNotMatch", "the signature is not that of this request", details)
        token = message.headers.get("x-amz-security-token") or ""
        if not hmac.compare_digest(token.encode(), credentials.session_token.encode()):
            raise S3Error(400, "InvalidToken", "the session token is not that of the access key")
        if self._clock() >= credentials.expires:
            raise S3Error(400, "ExpiredToken", "the credentials have expired")

    def _checked_date(self, message: Message, day: str) -> str:
        date = message.headers.get("x-amz-date") or ""
        try:
            seconds = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        except ValueError:
            raise S3Error(403, "AccessDenied", "x-amz-date is absent or not of the form 20130524T000000Z") from None
        if date[:8] != day:
            raise S3Error(400, "AuthorizationHeaderMalformed", "the day of the credential is not that of x-amz-date")
        if abs(seconds - self._clock()) > SKEW_SECONDS:
            raise S3Error(403, "RequestTimeTooSkewed", "x-amz-date is more than 15 minutes away", {"RequestTime": date})
        return date

    def _check_signed_names(self, message: Message, names: list[str]) -> None:
        needed = {"host"} | {name.lower() for name in message.headers if name.lower().startswith("x-amz-")}
        if missing := needed - set(names):
            raise S3Error(403, "AccessDenied", "headers are not signed", {"HeadersNotSigned": ", ".join(missing)})
        if names != sorted(names):
            raise S3Error(400, "AuthorizationHeaderMalformed", "SignedHeaders are not in order")

    def _checked_payload(self, message: Message) -> str:
        claimed = message.headers.get("x-amz-content-sha256") or ""
        if claimed == "UNSIGNED-PAYLOAD":
            return claimed
        if not re.fullmatch("[0-9a-f]{64}", claimed):
            raise S3Error(400, "InvalidRequest", "x-amz-content-sha256 is absent, or of a form that is not known here")
        if claimed != hashlib.sha256(message.body).hexdigest():
            raise S3Error(400, "XAmzContentSHA256Mismatch", "the body is not that of x-amz-content-sha256")
        return claimed


class BearerCheck:
    """Accepts `Authorization: Bearer TOKEN`, as Google's store does."""

    def __init__(self, token: str):
        self.token = token

    def expire(self) -> None:
        self.token = secrets.token_urlsafe(30)

    def check(self, message: Message) -> None:
        given = message.headers.get("authorization") or ""
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise S3Error(401, "AuthenticationRequired", "the bearer token is absent, wrong or has expired")
