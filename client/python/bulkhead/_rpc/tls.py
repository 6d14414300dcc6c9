"""TLS to a service: credentials for gRPC, and why a connection failed."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Any, Optional, Tuple

from ..errors import CredentialsInvalid
from . import grpc_library
from .credentials import Credentials

_MOST_FILE_BYTES = 1 << 20
_SCHEMES = re.compile(r"^(dns:///|dns:|ipv4:|ipv6:)")
# Of X509_verify_cert_error (openssl/x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64


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
        _read("ca (BULKHEAD_TLS_CA)", credentials.ca),
        _read("key (BULKHEAD_TLS_KEY)", credentials.key),
        _read("cert (BULKHEAD_TLS_CERT)", credentials.cert),
    )
    if credentials.token_file is None:
        return made
    token = (_read("token_file (BULKHEAD_TOKEN_FILE)", credentials.token_file) or b"").strip()
    if re.fullmatch(rb"[!-~]+", token):
        return grpc.composite_channel_credentials(made, grpc.access_token_call_credentials(token.decode()))
    wrong = "is empty; it must hold the token of the service"
    if token:
        wrong = "holds more than a token, which is one line without spaces"
    raise CredentialsInvalid(f"token_file (BULKHEAD_TOKEN_FILE) {credentials.token_file}: {wrong}")


def _read(variable: str, path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise CredentialsInvalid(f"{variable} {path}: cannot be read: it is no file")
        with open(path, "rb") as file:
            return file.read(_MOST_FILE_BYTES)
    except OSError as failure:
        raise CredentialsInvalid(
            f"{variable} {path}: cannot be read: {failure.strerror}"
        ) from None


def _context(credentials: Credentials) -> ssl.SSLContext:
    """With the files of `credentials`, all of which can be used."""
    assert credentials.ca is not None
    for variable, path in (
        ("ca (BULKHEAD_TLS_CA)", credentials.ca),
        ("cert (BULKHEAD_TLS_CERT)", credentials.cert),
        ("key (BULKHEAD_TLS_KEY)", credentials.key),
    ):
        _read(variable, path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_certificates(context, "ca (BULKHEAD_TLS_CA)", credentials.ca)
    if credentials.cert is None:
        return context
    _load_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "cert (BULKHEAD_TLS_CERT)", credentials.cert)
    try:
        # The password is for a key that has one: nobody is asked.
        context.load_cert_chain(credentials.cert, credentials.key, password=lambda: "")
    except ssl.SSLError as failure:
        if failure.reason == "KEY_VALUES_MISMATCH":
            text = f"is not the key of the certificate in {credentials.cert}"
        else:
            text = "holds no private key that can be read; it must be whole and without a passphrase"
        raise CredentialsInvalid(f"key (BULKHEAD_TLS_KEY) {credentials.key}: {text}") from None
    return context


def _load_certificates(context: ssl.SSLContext, variable: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise CredentialsInvalid(
            f"{variable} {path}: holds no certificate that can be read; it may be cut short"
        ) from None


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
    return (
        f"it hangs up on the certificate {credentials.cert} of this client; that has expired, or the "
        "service's --tls-client-ca is not the authority that signed it"
    )


def _why_not_trusted(
    failure: ssl.SSLCertVerificationError, host: str, credentials: Credentials
) -> str:
    if failure.verify_code == _EXPIRED:
        return "its certificate has expired; the service needs a new one (--tls-cert)"
    if failure.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet; compare the clocks of both machines"
    if failure.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"its certificate is not for {host}; connect by a name that is in it, or give the "
            "service one with this name"
        )
    return (
        f"its certificate is not trusted ({failure.verify_message}); ca (BULKHEAD_TLS_CA) "
        f"{credentials.ca} is not the authority that signed it"
    )
