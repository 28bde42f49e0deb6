"""Where webhooks may not go: at creation, and again at each connect, whatever a name stood for before."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from service.app import create_app
from service.operations import webhook_targets
from service.operations.webhook_targets import refusal
from service.settings import Access, Settings
from tests.api.test_events import tell
from tests.api.test_webhooks import LOOPBACK, call, create, deliveries, until_all
from tests.event_streams import PATIENCE_S, PortServer, Served, served
from tests.receivers import Receiver, receiving

REFUSED = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "::127.0.0.1",
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "100.100.100.200",
    "168.63.129.16",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "255.255.255.255",
    "ff02::1",
    "240.0.0.1",
    "nonsense",
]
CALLED = ["203.0.113.7", "8.8.8.8", "10.0.0.7", "192.168.1.7", "172.16.0.7", "2001:db8::7", "fd12:3456::7"]


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(create_app(Settings(access=Access.OPEN, state_dir=tmp_path))) as running:
        yield running


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_called(address: str) -> None:
    assert refusal(address, ()) is not None


@pytest.mark.parametrize("address", CALLED)
def test_addresses_that_are_called(address: str) -> None:
    assert refusal(address, ()) is None


def test_what_an_operator_allows_is_called_and_nothing_else() -> None:
    allowed = [ipaddress.ip_network("127.0.0.0/8")]
    assert refusal("127.0.0.1", allowed) is None
    assert refusal("::ffff:127.0.0.1", allowed) is None
    assert refusal("169.254.169.254", allowed) is not None
    assert refusal("::1", allowed) is not None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "0",
        "169.254.169.254",
        "[fe80::1]",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_refused_at_creation(strict: Served, scheme: str, host: str) -> None:
    problem = await call(strict, "POST", "", {"url": f"{scheme}://{host}/x"}, expect=422)
    assert problem["code"] == "target_refused"


async def test_a_name_that_stands_for_another_address_later_is_not_called(
    strict: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: a harmless answer at creation, this machine at the connect."""

    async def harmless(_host: str, _port: int) -> list[str]:
        return ["203.0.113.7"]

    monkeypatch.setattr(webhook_targets, "look_up", harmless)
    async with receiving(Receiver()) as receiver:
        webhook, _ = await create(strict, f"http://localhost:{receiver.port}/")
        await tell(strict.parts.control, 1)
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await deliveries(strict, webhook)) or not found[0]["error"]:
                await asyncio.sleep(0.02)
    assert "loopback" in found[0]["error"]
    assert receiver.got == []


async def test_a_redirect_to_another_place_is_not_followed(tmp_path: Path) -> None:
    async with (
        receiving(Receiver()) as inner,
        receiving(Receiver(answer=lambda _: 307, headers={"Location": inner.url})) as outer,
        served(
            create_app(Settings(access=Access.OPEN, state_dir=tmp_path, webhook_networks=LOOPBACK))  # type: ignore[arg-type]
        ) as service,
    ):
        webhook, _ = await create(service, outer.url)
        await call(service, "POST", f"/{webhook}/test", expect=202)
        (item,) = await until_all(service, webhook, "failed")
        assert (item["status"], inner.got) == (307, [])


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_https_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_trusted: bool) -> None:
    certificate = self_signed(tmp_path, "localhost")
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    receiver = Receiver()
    settings = Settings(access=Access.OPEN, state_dir=tmp_path / "state", webhook_networks=LOOPBACK)  # type: ignore[arg-type]
    async with (
        PortServer(receiver, lifespan="off", ssl_certfile=str(certificate)) as server,
        served(create_app(settings)) as service,
    ):
        webhook, _ = await create(service, f"https://localhost:{server.port}/")
        await call(service, "POST", f"/{webhook}/test", expect=202)
        (item,) = await until_all(service, webhook, "delivered" if is_trusted else "failed")
    if is_trusted:
        assert len(receiver.got) == 1
    else:
        assert "certificate" in item["error"].lower()
        assert receiver.got == []


def self_signed(directory: Path, name: str) -> Path:
    """Write a key and a certificate for a name into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = directory / "certificate.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
