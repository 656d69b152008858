"""An authority of a test's own, and the certificate of localhost that it signs: no key is kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "localhost"
VALID = timedelta(days=1)
SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def made_in(folder: Path) -> tuple[Path, Path]:
    """Files, PEM: the authority's certificate; the server's with its key."""
    of_authority, of_server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = _named("authority of a test")
    # Python 3.13 believes no certificate that does not say by which key it was signed.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(of_authority.public_key())
    authority = (
        _begun(name, name, of_authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(SIGNS, critical=True)
        .sign(of_authority, hashes.SHA256())
    )
    server = (
        _begun(_named(HOST), name, of_server)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(signer, critical=False)
        .sign(of_authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = of_server.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    trusted, own = folder / "authority.pem", folder / "server.pem"
    trusted.write_bytes(authority.public_bytes(pem))
    own.write_bytes(key + server.public_bytes(pem))
    return trusted, own


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _begun(
    of: x509.Name, by: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(of)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
