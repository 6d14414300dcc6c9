"""TLS to a service: credentials for gRPC, and why a connection failed."""

from __future__ import annotations

import os
import re
import socket
import ssl
from datetime import datetime, timezone
from typing import Any, Optional, Tuple

from ..errors import CredentialsInvalid
from . import grpc_library
from .credentials import Credentials, named

_MOST_FILE_BYTES = 1 << 20
_SCHEMES = re.compile(r"^(dns:///|dns:|ipv4:|ipv6:)")
# Of X509_verify_cert_error (openssl/x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _WRONG_PURPOSE, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 26, 62, 64
_WHY = {
    _EXPIRED: "its certificate has expired; the service needs a new one (--tls-cert)",
    _NOT_YET_VALID: "its certificate is not valid yet; compare the clocks of both machines",
    _WRONG_PURPOSE: "its certificate is not one of a server by its extended key usage; the service needs another (--tls-cert)",
}
# A certificate's Validity in DER (RFC 5280): a sequence of two times, each with two or four digits of a year.
_TIME = rb"(?:\x17\x0d|\x18\x0f)((?:\d\d)?\d{12}Z)"
_VALIDITY = re.compile(rb"\x30." + _TIME + _TIME, re.DOTALL)


def channel_credentials(credentials: Credentials) -> Any:
    """gRPC's credentials for TCP, of the files as they are now; None: without TLS.

    CredentialsInvalid names the file and what is wrong with it, or the one that is missing.
    """
    if (credentials.cert is None) != (credentials.key is None):
        raise CredentialsInvalid(
            "cert and key (BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY) belong together, and one of them is missing"
        )
    if credentials.ca is None:
        if credentials.cert is None and credentials.token_file is None:
            return None
        raise CredentialsInvalid(
            "a certificate or a token is sent over TLS only: give the authority of the service's "
            "certificate with ca (BULKHEAD_TLS_CA)"
        )
    _context(credentials)
    grpc = grpc_library.load()
    made = grpc.ssl_channel_credentials(
        _read("ca", credentials.ca), _read("key", credentials.key), _read("cert", credentials.cert)
    )
    if credentials.token_file is None:
        return made
    token = (_read("token_file", credentials.token_file) or b"").strip()
    if re.fullmatch(rb"[!-~]+", token):
        return grpc.composite_channel_credentials(made, grpc.access_token_call_credentials(token.decode()))
    wrong = "is empty; it must hold the token of the service"
    if token:
        wrong = "holds more than a token, which is one line without spaces"
    raise _unusable("token_file", credentials.token_file, wrong)


def _unusable(field: str, path: str, what: str) -> CredentialsInvalid:
    return CredentialsInvalid(f"{named(field, path)}: {what}", metadata={"field": field})


def _read(field: str, path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise _unusable(field, path, "cannot be read: it is no file")
        with open(path, "rb") as file:
            return file.read(_MOST_FILE_BYTES)
    except OSError as failure:
        raise _unusable(field, path, f"cannot be read: {failure.strerror}") from None


def _context(credentials: Credentials) -> ssl.SSLContext:
    """With the files of `credentials`, all of which can be used."""
    assert credentials.ca is not None
    for field in ("ca", "cert", "key"):
        _read(field, getattr(credentials, field))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_certificates(context, "ca", credentials.ca)
    if credentials.cert is None or credentials.key is None:
        return context
    _load_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "cert", credentials.cert)
    try:
        # The password is for a key that has one: nobody is asked.
        context.load_cert_chain(credentials.cert, credentials.key, password=lambda: "")
    except ssl.SSLError as failure:
        if failure.reason == "KEY_VALUES_MISMATCH":
            text = f"is not the key of the certificate in {credentials.cert}"
        else:
            text = "holds no private key that can be read; it must be whole and without a passphrase"
        raise _unusable("key", credentials.key, text) from None
    return context


def _load_certificates(context: ssl.SSLContext, field: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise _unusable(field, path, "holds no certificate that can be read; it may be cut short") from None


def explain(target: str, credentials: Credentials) -> str:
    """Why a connection to "host:port" failed, if TLS is the reason; else empty.

    A sentence without a beginning: "its certificate has expired; …". gRPC itself says no more than
    that a socket was closed. Makes a connection of its own; blocks for as long as the host's name is
    looked up, then at most 2 s ($BULKHEAD_TLS_EXPLAIN_SECONDS) for each of its addresses and for each
    step over TLS.
    """
    address = _host_and_port(target)
    if address is None:
        return ""
    try:
        with socket.create_connection(address, _patience_seconds()) as connection:
            if credentials.ca is None:
                return _explain_plain(connection)
            return _explain_tls(connection, address[0], credentials)
    except (OSError, CredentialsInvalid):
        return ""


def _patience_seconds() -> int:
    text = os.environ.get("BULKHEAD_TLS_EXPLAIN_SECONDS", "")
    return int(text) if re.fullmatch("[1-9][0-9]{0,8}", text) else 2


def _host_and_port(target: str) -> Optional[Tuple[str, int]]:
    host, colon, port = _SCHEMES.sub("", target).rpartition(":")
    if not colon or not port.isdigit() or target.startswith("unix"):
        return None
    return host.strip("[]"), int(port)


def _explain_plain(connection: socket.socket) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except OSError:  # with SSLError
        return ""
    return (
        "it speaks TLS; give the authority of its certificate with ca (BULKHEAD_TLS_CA), and a client "
        "certificate or a token"
    )


def _explain_tls(connection: socket.socket, host: str, credentials: Credentials) -> str:
    context = _context(credentials)
    context.set_alpn_protocols(["h2"])
    try:
        session = context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as failure:
        return _why_not_trusted(failure, host, credentials)
    except ssl.SSLError as failure:
        return (
            f"it speaks no TLS, or none that this client accepts ({failure.reason or failure}); start "
            "bulkheadd with --tls-cert, or leave out ca (BULKHEAD_TLS_CA)"
        )
    with session:
        # In TLS 1.3 it judges this client's certificate only now, and gRPC hangs up without a word.
        try:
            if session.recv(1):
                return ""
        except socket.timeout:
            return ""
        except OSError:  # with SSLError
            pass
    if credentials.cert is None:
        return "it wants a client certificate; give cert and key (BULKHEAD_TLS_CERT, BULKHEAD_TLS_KEY)"
    why = _why_outdated(credentials.cert) or (
        "the service's --tls-client-ca is not the authority that signed it, or it lacks an intermediate "
        "certificate, or its extended key usage excludes clients"
    )
    return f"it hangs up on the certificate {credentials.cert} of this client; {why}"


def _why_outdated(path: str) -> str:
    """ "that expired at 2026-01-31 12:00:00 UTC"; empty for a certificate that is valid now."""
    pem = (_read("cert", path) or b"").decode("utf-8", "replace")
    first = re.search("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    validity = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(first[0])) if first else None
    if validity is None:
        return ""
    since, until = (_utc(time.decode()) for time in validity.groups())
    now = datetime.now(timezone.utc)
    if until < now:
        return f"that expired at {until:%Y-%m-%d %H:%M:%S} UTC"
    return f"that is not valid before {since:%Y-%m-%d %H:%M:%S} UTC" if since > now else ""


def _utc(time: str) -> datetime:
    """Of "261128193200Z" or "20261128193200Z"."""
    digits = time if len(time) > len("YYMMDDHHMMSSZ") else ("20" if time < "50" else "19") + time
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc)


def _why_not_trusted(
    failure: ssl.SSLCertVerificationError, host: str, credentials: Credentials
) -> str:
    if failure.verify_code in _WHY:
        return _WHY[failure.verify_code]
    if failure.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"its certificate is not for {host}; connect by a name that is in it, or give the "
            "service one with this name"
        )
    return (
        f"its certificate is not trusted ({failure.verify_message}); {named('ca', credentials.ca or '')} is not "
        "the authority that signed it, or the service's --tls-cert lacks an intermediate certificate"
    )
