"""What a federation's transport is secured with: a certificate authority, the server's certificate, the nodes' keys."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedbandits.deploy.storage.files import private_directory, write_private

LIFE = timedelta(days=365)
"""How long certificates are valid."""
_LOOPBACK = ("127.0.0.1", "localhost")
_PEM, _PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()


def make_certificates(directory: Path, hosts: Sequence[str], life: timedelta = LIFE) -> None:
    """Write ca.crt, ca.key, server.crt and server.key for a SuperLink that is reached by `hosts` (names, addresses).

    It is also valid for loopback, where the gate and operators reach the SuperLink.
    An authority that is there is kept, so that a new server certificate needs nothing to be done at the nodes.
    """
    private_directory(directory)
    if not (directory / "ca.key").exists():
        _make_authority(directory, life)
    authority = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    signing = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    names = list(dict.fromkeys((*hosts, *_LOOPBACK)))
    certificate = (
        _certificate(hosts[0], key.public_key(), authority.subject, life)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA384())
    )
    (directory / "server.crt").write_bytes(certificate.public_bytes(_PEM))
    write_private(directory / "server.key", _pem(key))


def make_key(path: Path) -> Path:
    """Write a node's private key to `path` and its public key beside it, as `.pub`; returns the latter's path."""
    private_directory(path.parent)
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(path, key.private_bytes(_PEM, serialization.PrivateFormat.OpenSSH, _PLAIN))
    public = path.with_suffix(".pub")
    ssh = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    public.write_bytes(key.public_key().public_bytes(*ssh) + b"\n")
    return public


def _make_authority(directory: Path, life: timedelta) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedbandits federation CA")])
    certificate = (
        _certificate("fedbandits federation CA", key.public_key(), name, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_MAY_SIGN, critical=True)
        .sign(key, hashes.SHA384())
    )
    (directory / "ca.crt").write_bytes(certificate.public_bytes(_PEM))
    write_private(directory / "ca.key", _pem(key))


_MAY_SIGN = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _certificate(
    common: str, public: ec.EllipticCurvePublicKey, issuer: x509.Name, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)]))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + life)
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _PLAIN)
