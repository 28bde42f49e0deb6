"""`vigil backup` and `vigil restore`: on the database that the settings name, with no service needed."""

from pathlib import Path

import typer

from service.clock import utc_now
from service.db.backup import BackupRefused, back_up, check, restore
from service.db.holding import DatabaseInUse
from service.settings import Settings

MIB = 2**20


def write(target: Path, *, replaces: bool) -> int:
    """Write a backup; 0 when it is there, 1 when it is not, with the reason on standard error."""
    try:
        made = back_up(Settings().resolved_database_url(), target, replaces=replaces)
    except BackupRefused as refusal:
        typer.echo(f"vigil backup: {refusal}", err=True)
        return 1
    typer.echo(f"{made.path}: {made.size_bytes / MIB:.1f} MiB, checked, tables of migration {made.revision}")
    return 0


def put_back(source: Path, *, replaces: bool) -> int:
    """Put a backup in the place of the database; 0 when it is there, 1 when nothing was changed."""
    url = Settings().resolved_database_url()
    try:
        found = check(source)
        kept = restore(source, url, at=utc_now(), replaces=replaces)
    except (BackupRefused, DatabaseInUse) as refusal:
        typer.echo(f"vigil restore: {refusal}", err=True)
        return 1
    typer.echo(f"{source} is the database now; it was of migration {found.revision}")
    if kept is not None:
        typer.echo(f"what was there before is {kept}")
    return 0
