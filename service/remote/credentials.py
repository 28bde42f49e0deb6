"""Which private key files may be used: present, a file, readable by the owner alone."""

import stat
from pathlib import Path

from service.errors import CredentialUnusable


def check_key_file(path: str) -> Path:
    """Return the path of a private key that is fit to be read, or raise CredentialUnusable and say what is wrong.

    OpenSSH's own rule: nobody but the owner may have any access to a private key.
    """
    try:
        key = Path(path).expanduser()
        mode = key.stat().st_mode
    except OSError as error:
        raise CredentialUnusable(f"the key file {path} cannot be read: {error.strerror or error}", path=path) from error
    except RuntimeError as error:  # of expanduser
        raise CredentialUnusable(
            f"the key file {path} lies in the home of a user who is not there", path=path
        ) from error
    if not stat.S_ISREG(mode):
        raise CredentialUnusable(f"{path} is not a file", path=path)
    if mode & 0o077:
        raise CredentialUnusable(
            f"the key file {path} has mode {stat.S_IMODE(mode):03o}: others may read it",
            remedy=f"chmod 600 {path}",
            path=path,
        )
    return key
