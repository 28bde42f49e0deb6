"""The room for what a launch writes: real file systems, full, read-only, of somebody else, or dead."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.preflights.node_room import check_disk
from service.remote.node import NodeSession
from service.remote.on_node import launch_room
from service.sglang.checks import Outcome
from tests.remote.looking import AS_ROOT, NOBODY, look, look_as, look_here


async def test_shared_memory_is_counted(node: NodeSession) -> None:
    before = await look(node)
    path = Path(f"/dev/shm/vigil-test-{os.getpid()}")
    path.write_bytes(b"x" * (4 << 20))
    try:
        after = await look(node, environment={"NCCL_SHM_DISABLE": "1"})
    finally:
        path.unlink()
    assert before.shared_memory
    assert after.shared_memory
    facts = os.statvfs("/dev/shm")
    assert after.shared_memory.total_mib == facts.f_blocks * facts.f_frsize >> 20
    assert after.shared_memory.file_count > 0
    assert (before.shared_memory.is_nccl_off, after.shared_memory.is_nccl_off) == (False, True)


def test_places_are_those_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "of-the-login"))
    monkeypatch.delenv("TMPDIR", raising=False)
    named = {"TRITON_CACHE_DIR": "~/kernels/triton", "HF_HOME": "/", "SGLANG_CACHE_DIR": str(tmp_path / "sg")}
    seen = look_here(environment=named, paths=["/proc/self", str(tmp_path / "no" / "model")])
    assert seen.places
    places = {place.name: place for place in seen.places}
    assert places["launches"].path == f"{tmp_path}/.vigil"
    assert places["TRITON_CACHE_DIR"].path == f"{tmp_path}/kernels/triton"
    assert places["TRITON_CACHE_DIR"].measured_path == str(tmp_path)
    assert places["hub_cache"].path == "/hub"
    assert places["engine_cache"].path == f"{tmp_path}/sg"
    assert [place.path for place in seen.places if place.name == "asked"] == ["/proc/self", f"{tmp_path}/no/model"]
    facts = os.statvfs(tmp_path)
    assert places["launches"].device == tmp_path.stat().st_dev
    assert places["launches"].total_mib == facts.f_blocks * facts.f_frsize >> 20
    assert (places["launches"].is_writable, places["launches"].is_read_only) == (True, False)


def test_a_file_in_the_way_of_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seen = look_here(environment={"TRITON_CACHE_DIR": str(tmp_path / "file" / "triton")})
    assert seen.places
    (place,) = [place for place in seen.places if place.name == "TRITON_CACHE_DIR"]
    assert (place.free_mib, place.problem) == (None, f"{tmp_path}/file: it is no directory")
    check = check_disk(seen)
    assert check.outcome is Outcome.WARN
    assert "it is no directory" in check.found


@AS_ROOT
def test_a_directory_that_this_user_may_not_write(open_place: Path) -> None:
    seen = look_as(NOBODY, environment={"HOME": str(open_place), "TRITON_CACHE_DIR": str(open_place / "triton")})
    assert seen.places
    (place,) = [place for place in seen.places if place.name == "TRITON_CACHE_DIR"]
    assert (place.measured_path, place.is_writable, place.is_read_only) == (str(open_place), False, False)
    check = check_disk(seen)
    assert check.outcome is Outcome.FAIL, "its home is / and it may not write there"
    assert "TRITON_CACHE_DIR) is not writable" in check.found


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 50 MiB that is mounted read-only."""
    place = tmp_path / "mounted"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=50m,ro", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_and_a_read_only_file_system(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(mounted))
    seen = look_here()
    assert seen.places
    (home,) = [place for place in seen.places if place.name == "launches"]
    assert (home.measured_path, home.total_mib, home.free_mib) == (str(mounted), 50, 50)
    assert (home.is_read_only, home.is_writable) == (True, False)
    check = check_disk(seen)
    assert check.outcome is Outcome.FAIL
    assert "mounted read-only" in check.found
    assert "50 MiB are free for launches and their logs" in check.found


def test_a_file_system_that_hangs_spoils_no_other_look(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        if path == "/proc":
            time.sleep(5)
        return real(path)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(launch_room, "PATIENCE_S", 0.2)
    began = time.monotonic()
    seen = look_here(environment={"TRITON_CACHE_DIR": "/proc/dead"})
    assert time.monotonic() - began < 4
    assert seen.places
    assert [place.problem for place in seen.places if place.name == "TRITON_CACHE_DIR"] == ["no answer within 0.2 s"]
    assert all(place.free_mib is not None for place in seen.places if place.name != "TRITON_CACHE_DIR")
    assert check_disk(seen).outcome is Outcome.WARN
