"""Reads the secrets that profiles refer to, at launch; they go to the node and nowhere else."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from service.errors import SecretUnavailable
from service.profiles.profile import SecretReference

OWN_VARIABLES = frozenset({"VIGIL_ADMIN_TOKEN", "VIGIL_TOKEN", "VIGIL_DATABASE_URL"})
"""What opens Vigil itself: an operator who could send it to an engine of his own would be an admin."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def resolve(references: Mapping[str, SecretReference]) -> dict[str, str]:
    """Return the secrets by name; SecretUnavailable names the reference that cannot be read, never a value."""
    return {name: _read(name, reference) for name, reference in references.items()}


def _read(name: str, reference: SecretReference) -> str:
    if reference.env is not None:
        place = f"environment variable {reference.env}"
        if reference.env in OWN_VARIABLES:
            raise SecretUnavailable(f"{name}: {place} is Vigil's own, and goes to no engine")
        value = os.environ.get(reference.env, "")
    else:
        path = Path(reference.file or "")
        place = f"file {path}"
        try:
            if path.stat().st_mode & _OTHERS:
                raise SecretUnavailable(f"{name}: {place} can be read by others; it must have mode 600")
            value = path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnavailable(f"{name}: {place} cannot be read ({type(error).__name__})") from error
    if not value:
        raise SecretUnavailable(f"{name}: {place} is empty or not set")
    return value
