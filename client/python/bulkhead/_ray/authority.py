"""Certificates for one fleet, signed by an authority that exists for that fleet alone."""

from __future__ import annotations

import datetime
import ipaddress
from typing import Any, NamedTuple

from ..errors import InvalidArgument

# A fleet's certificates need no renewal: they are worthless once the fleet has ended.
_VALID = datetime.timedelta(days=825)
_CLOCKS_DIFFER = datetime.timedelta(days=1)


class Issued(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def _x509() -> Any:
    """InvalidArgument where the package `cryptography` is missing."""
    try:
        import cryptography.x509
    except ImportError:
        raise InvalidArgument(
            "a fleet's nodes speak TLS, and its certificates are made by the package cryptography, which is not "
            "installed here: pip install cryptography"
        ) from None
    return cryptography.x509


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _pem(certificate: Any, key: Any) -> Issued:
    from cryptography.hazmat.primitives import serialization

    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Issued(certificate.public_bytes(pem), key.private_bytes(pem, form, plain))


def _builder(subject: str, issuer: str, public_key: Any) -> Any:
    x509 = _x509()

    def name(text: str) -> Any:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _VALID)
    )


class Authority:
    """Signs the certificates of one fleet. Can be pickled, with its key."""

    def __init__(self) -> None:
        """InvalidArgument where the package `cryptography` is missing."""
        x509 = _x509()
        from cryptography.hazmat.primitives import hashes

        key = _new_key()
        self._name = "bulkhead.ray fleet"
        certificate = (
            _builder(self._name, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self._own = _pem(certificate, key)

    @property
    def certificate(self) -> bytes:
        """Its own, as PEM."""
        return self._own.certificate

    def issue(self, name: str) -> Issued:
        """A new key and a certificate for `name`, which is an IP address or a DNS name."""
        x509 = _x509()
        from cryptography.hazmat.primitives import hashes, serialization

        try:
            alternative = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        signer = serialization.load_pem_private_key(self._own.key, None)
        key = _new_key()
        certificate = (
            _builder(name, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )
        return _pem(certificate, key)
