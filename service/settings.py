"""What an operator may configure, from the environment (VIGIL_…)."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every setting has a default that is right for one operator on one machine."""

    model_config = SettingsConfigDict(env_prefix="VIGIL_", extra="ignore")

    state_dir: Path = Path("~/.local/state/vigil")
    """Where the database lies. Created with mode 700."""
    database_url: str | None = None
    """An SQLAlchemy URL; the default is SQLite in `state_dir`."""
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
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
    log_level: str = "INFO"

    def resolved_state_dir(self) -> Path:
        """Return the state directory with `~` expanded."""
        return self.state_dir.expanduser()

    def resolved_database_url(self) -> str:
        """Return the database URL, SQLite in the state directory unless one is set."""
        return self.database_url or f"sqlite+aiosqlite:///{self.resolved_state_dir() / 'vigil.db'}"
