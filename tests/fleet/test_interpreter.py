"""The interpreter while the service runs: it collects seldom and switches threads soon, and is put back."""

import gc
import sys
from pathlib import Path

from service.app import COLLECTOR_THRESHOLDS, SWITCH_INTERVAL_S, create_app
from service.settings import Access, Settings


async def test_the_collector_is_calm_for_as_long_as_the_service_runs(tmp_path: Path) -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    app = create_app(Settings(access=Access.OPEN, state_dir=tmp_path))
    async with app.router.lifespan_context(app):
        assert gc.get_threshold() == COLLECTOR_THRESHOLDS
        assert gc.get_freeze_count() > 10_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


async def test_threads_are_let_in_soon_for_as_long_as_the_service_runs(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    app = create_app(Settings(access=Access.OPEN, state_dir=tmp_path))
    async with app.router.lifespan_context(app):
        assert sys.getswitchinterval() == SWITCH_INTERVAL_S < before
    assert sys.getswitchinterval() == before
