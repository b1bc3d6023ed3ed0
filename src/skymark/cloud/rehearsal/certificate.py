"""A certificate authority that lives as long as a rehearsal, for the simulated cloud's address."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509


def make_certificate(hosts: Sequence[str], authority: Path, server: Path) -> None:
    """Make an authority and a certificate of it for some host names, valid for a week.

    Args:
        hosts: the names that the simulated cloud answers for.
        authority: where the authority's certificate goes; its key is not kept.
        server: where the server's certificate and key go, readable by the owner only.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = dt.datetime.now(dt.UTC)
    issuer = name("skymark rehearsal")
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    blank = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=7))
    )
    key_of_authority = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    of_authority = (
        blank.subject_name(issuer)
        .public_key(authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_of_authority, critical=False)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    of_server = (
        blank.subject_name(name(hosts[0]))
        .public_key(server_key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_of_authority),
            critical=False,
        )
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    authority.write_bytes(of_authority.public_bytes(pem))
    server.touch(mode=0o600)
    server.write_bytes(
        of_server.public_bytes(pem)
        + server_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
