"""HTTPS with `--tls-cert`: a self-signed certificate that the test makes."""

import http.client
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from season.serving import make_contest, serving
from season.test_serve import submit

from bci_stream.errors import ContestError
from bci_stream.season.client import ServerAway
from bci_stream.season.serve_command import tls_context


def certificate(folder: Path) -> tuple[Path, Path]:
    """(certificate, key) for 127.0.0.1, valid for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "season test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_a_submission_goes_over_tls_and_cookies_are_secure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    with serving(make_contest(tmp_path / "cup"), tls=tls_context(cert, key)) as served:
        alice = served.client("alice")
        with pytest.raises(ServerAway, match="self-signed certificate"):
            alice.submissions()
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert served.until(alice, submit(alice, tmp_path), "judged")["score"] > 0
        connection = http.client.HTTPSConnection(
            urlsplit(served.url).netloc, context=ssl.create_default_context(cafile=cert), timeout=30
        )
        body = f"token={served.contest.keys.console_token()}"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/console/login", body, form)
        assert "Secure" in connection.getresponse().getheader("Set-Cookie")
        connection.close()


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path)
    assert tls_context(None, None) is None
    for wrong in ((tmp_path / "absent", None), (cert, cert)):
        with pytest.raises(ContestError, match=r"--tls-cert .*: not a certificate with its key"):
            tls_context(*wrong)
