"""What an operator may configure, from the environment (VIGIL_…)."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field, IPvAnyNetwork, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Access(StrEnum):
    """Who is answered."""

    TOKEN = "token"  # noqa: S105  the name of a way in, not a token
    """Who sends a token."""
    OPEN = "open"
    """Everybody, as an admin; only where the service listens on loopback."""


class Settings(BaseSettings):
    """Every setting has a default that is right for one operator on one machine."""

    model_config = SettingsConfigDict(env_prefix="VIGIL_", extra="ignore", hide_input_in_errors=True)

    state_dir: Path = Path("~/.local/state/vigil")
    """Where the database lies. Created with mode 700."""
    database_url: str | None = None
    """An SQLAlchemy URL; the default is SQLite in `state_dir`."""
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    access: Access = Access.TOKEN
    admin_token: SecretStr | None = None
    """The first admin's token, where it shall not be made and printed; 32 characters or more. Only its hash is kept."""
    max_body_bytes: int = Field(default=2**20, ge=1024)
    """How long the body of a request may be."""
    head_deadline_s: float = Field(default=10, gt=0)
    """How long the head of a request may take to arrive, from the connection or from the answer before it."""
    body_deadline_s: float = Field(default=30, gt=0)
    """How long the body of a request may take to arrive."""
    max_streams: int = Field(default=2000, ge=1)
    """How many waits and streams there may be at once."""
    max_streams_per_token: int = Field(default=1000, ge=1)
    """How many of them one token may hold; with open access, all callers together."""
    inventory_interval_s: float = Field(default=300, gt=0)
    """How often a node's GPUs, disks and environments are looked at again."""
    connect_deadline_s: float = Field(default=8, gt=0)
    """How long one attempt to reach a node may take."""
    observer_tick_s: float = Field(default=0.25, ge=0.05, le=5)
    """How often the observer on a node looks at processes and listeners."""
    beat_lost_after_s: float = Field(default=10, gt=0)
    """A node that was silent for this long has lost contact."""
    retry_max_s: float = Field(default=30, gt=0)
    """The longest pause between two attempts to reach a node."""
    health_deadline_s: float = Field(default=25, gt=0)
    """How long `GET /health` may take: longer than the 20 s after which the engine answers 503 by itself."""
    health_interval_s: float = Field(default=5, gt=0)
    """The pause between two health questions to a server that is ready."""
    backup_dir: Path | None = None
    """Where backups of the SQLite database are written by themselves; None writes none."""
    backup_every_h: float = Field(default=24, gt=0)
    """How old the newest of them may become."""
    backup_keep: int = Field(default=7, ge=1)
    """How many of them are kept."""
    keep_days: float = Field(default=365, ge=8)
    """For how long history is kept: transitions, ended findings and operations, samples, launches, result files."""
    keep_events_days: float = Field(default=30, ge=1)
    """For how long a listener may stay away and lose no event."""
    keep_rows: int = Field(default=1_000_000, ge=1000)
    """How many transitions, events, findings, operations and samples are kept at most, of each."""
    keep_launches: int = Field(default=200, ge=40)
    """How many launches of a server are kept at most."""
    keep_launch_files_days: float = Field(default=30, ge=1)
    """For how long an ended launch keeps its directory, log and all, on its node."""
    webhook_networks: tuple[IPvAnyNetwork, ...] = ()
    """Networks that webhooks may call although they are loopback, link-local or the like, such as ["127.0.0.0/8"]."""
    log_level: str = "INFO"

    def resolved_state_dir(self) -> Path:
        """Return the state directory with `~` expanded."""
        return self.state_dir.expanduser()

    def resolved_database_url(self) -> str:
        """Return the database URL, SQLite in the state directory unless one is set."""
        return self.database_url or f"sqlite+aiosqlite:///{self.resolved_state_dir() / 'vigil.db'}"
