"""Where a node is and how to log in to it: address, user, credential, pinned host key, jump host."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A private key on the control plane's disk: mode 600 or stricter, without a passphrase."""

    path: str


@dataclass(frozen=True, slots=True)
class Agent:
    """The SSH agent that the control plane's SSH_AUTH_SOCK names."""


Credential = KeyFile | Agent


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One SSH server as one user; `host_key` is its pinned public key line, None until an operator trusts it."""

    address: str
    port: int
    user: str
    credential: Credential
    host_key: str | None = None
    jump: "Endpoint | None" = None

    @property
    def label(self) -> str:
        """Return `user@address:port`, as messages name the endpoint."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A host key as a server offered it: `public_line` is what gets pinned, `fingerprint` what people compare."""

    algorithm: str
    public_line: str
    fingerprint: str
    """`SHA256:` and unpadded base64, as `ssh-keygen -lf` prints it."""
