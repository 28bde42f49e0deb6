"""What webhooks are signed with: secrets by reference, or derived from one key file so that none is stored."""

import base64
import binascii
import hashlib
import hmac
import os
import secrets as randomness
import stat
from datetime import datetime
from pathlib import Path

from service.errors import InvalidInput, SecretUnavailable
from service.operations.secrets import resolve
from service.profiles.profile import SecretReference

KEY_FILE = "webhook.key"
PREFIX = "whsec_"
LEAST_BYTES = 24
"""As the Standard Webhooks say."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PURPOSE = b"vigil webhook "


def derive(state_dir: Path, webhook_id: str) -> str:
    """Return the secret of a webhook that gave none: an HMAC of its id under the key of this service.

    The key is made at the first need, in a file with mode 600. SecretUnavailable if it cannot be used.
    """
    key = _key(state_dir / KEY_FILE)
    return PREFIX + base64.b64encode(hmac.digest(key, _PURPOSE + webhook_id.encode(), "sha256")).decode()


def read(reference: dict[str, str]) -> str:
    """Return a secret by its reference; SecretUnavailable or InvalidInput, never with a value, if it is no good."""
    secret = resolve({"the secret of the webhook": SecretReference.model_validate(reference)}).popitem()[1]
    if len(key_of(secret)) < LEAST_BYTES:
        raise InvalidInput(f"the secret of a webhook needs {LEAST_BYTES} bytes or more")
    return secret


def hash_of(secret: str) -> str:
    """Return what is kept of a derived secret, to notice that the key file is another one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key_of(secret: str) -> bytes:
    """Return the bytes to sign with: base64 behind `whsec_`, or else the text itself."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error as error:
            raise InvalidInput(f"what follows {PREFIX} in the secret is not base64") from error
    return secret.encode()


def headers(secret: str, message_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of the Standard Webhooks: the signature covers id, second and body, joined by dots."""
    second = int(at.timestamp())
    signed = f"{message_id}.{second}.".encode() + body
    signature = base64.b64encode(hmac.digest(key_of(secret), signed, "sha256")).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(second),
        "webhook-signature": f"v1,{signature}",
    }


def _key(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & _OTHERS:
            raise SecretUnavailable(f"{path} can be read by others; it must have mode 600")
        key = bytes.fromhex(path.read_text("ascii"))
    except (OSError, ValueError) as error:
        raise SecretUnavailable(f"{path} cannot be used ({type(error).__name__})") from error
    if len(key) < LEAST_BYTES:
        raise SecretUnavailable(f"{path} holds no key")
    return key


def _make(path: Path) -> None:
    """Write a new key so that nobody ever sees half of it."""
    draft = path.with_name(f".{path.name}.{randomness.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(randomness.token_hex(32))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
