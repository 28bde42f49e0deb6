"""How much of a model is in the page cache: real files that are dropped from it and read again."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.remote.bundle import PYTHON_ARGV, payload
from service.remote.node import NodeSession
from service.remote.on_node import page_cache
from service.remote.on_node.answering import MARK

MIB = 2**20
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else, or to mount")


def drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def warm(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(descriptor, size, 0)
    os.close(descriptor)


def weights(path: Path, mib: int, *, warm_mib: int) -> Path:
    path.write_bytes(os.urandom(mib * MIB))
    drop(path)
    if warm_mib:
        warm(path, warm_mib * MIB)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    return directory


def seen_by(user: int, path: Path) -> float | None:
    """Ask as somebody else, with the very bytes that go to a node."""
    done = subprocess.run(
        PYTHON_ARGV,
        input=payload("cached_share", {"paths": [str(path)], "environment": {}}, limit_s=10),
        capture_output=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/"},
        user=user,
        group=user,
        extra_groups=[],
        cwd="/",
        check=True,
    )
    share: float | None = json.loads(done.stdout[len(MARK) :])["result"]["share"]
    return share


async def test_the_share_counts_bytes_and_not_files(node: NodeSession, model: Path) -> None:
    weights(model / "model-1.safetensors", 6, warm_mib=0)
    weights(model / "model-2.safetensors", 2, warm_mib=2)
    assert await node.cached_share([str(model)]) == pytest.approx(0.25, abs=0.02)
    warm(model / "model-1.safetensors", 3 * MIB)
    assert await node.cached_share([str(model)]) == pytest.approx(5 / 8, abs=0.02)
    for path in model.iterdir():
        warm(path, 6 * MIB)
    assert await node.cached_share([str(model)]) == 1.0


async def test_a_cold_model_is_known_to_be_cold(node: NodeSession, model: Path) -> None:
    path = weights(model / "model.safetensors", 4, warm_mib=0)
    assert await node.cached_share([str(path)]) == pytest.approx(0, abs=0.01)


async def test_links_are_followed_and_a_file_counts_once(node: NodeSession, model: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub" / "models--acme--tiny"
    (hub / "blobs").mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("abc")
    snapshot = hub / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    weights(hub / "blobs" / "0123", 4, warm_mib=2)
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    (model / "model.safetensors").symlink_to(hub / "blobs" / "0123")
    (model / "lost.safetensors").symlink_to("nowhere")
    half = pytest.approx(0.5, abs=0.02)
    assert await node.cached_share([str(model), str(snapshot)]) == half
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    assert await node.cached_share(["acme/tiny"], environment=environment) == half
    assert await node.cached_share(["acme/tiny"]) is None


async def test_only_what_the_engine_would_load_counts(node: NodeSession, model: Path) -> None:
    weights(model / "model-1.safetensors", 1, warm_mib=1)
    for other in ("pytorch_model.bin", "consolidated.safetensors", "model.safetensors.bak"):
        weights(model / other, 2, warm_mib=0)
    assert await node.cached_share([str(model)]) == pytest.approx(1 / 3, abs=0.02)
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    assert await node.cached_share([str(model)]) == 1.0
    index.write_text('{"weight_map": 5')
    assert await node.cached_share([str(model)]) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("kind", ["bin", "pt"])
async def test_older_kinds_of_weights_count(node: NodeSession, model: Path, kind: str) -> None:
    weights(model / f"pytorch_model.{kind}", 2, warm_mib=1)
    weights(model / "optimizer.pt", 2, warm_mib=0)
    assert await node.cached_share([str(model)]) == pytest.approx(0.5, abs=0.02)


async def test_without_weights_nothing_is_known(node: NodeSession, model: Path) -> None:
    (model / "config.json").write_text("{}")
    (model / "empty.safetensors").touch()
    os.mkfifo(model / "pipe.safetensors")
    assert await node.cached_share([]) is None
    assert await node.cached_share([str(model), str(model / "none"), "relative/../path"]) is None


@AS_ROOT
def test_to_a_reader_it_is_unknown_and_to_the_owner_known(open_place: Path) -> None:
    path = weights(open_place / "model.safetensors", 2, warm_mib=1)
    path.chmod(0o644)
    assert seen_by(NOBODY, path) is None
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o444)
    assert seen_by(NOBODY, path) == pytest.approx(0.5, abs=0.03)
    os.chown(path, 0, 0)
    path.chmod(0o600)
    assert seen_by(NOBODY, path) is None


@pytest.mark.parametrize("part", [page_cache.PART_BYTES, MIB])
def test_mincore_says_the_same_where_it_may_be_believed(
    model: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    weights(model / "model.safetensors", 4, warm_mib=3)
    monkeypatch.setattr(page_cache, "PART_BYTES", part)
    request = {"paths": [str(model)], "environment": {}}
    expected = page_cache.cached_share(request)["share"]
    assert expected == pytest.approx(0.75, abs=0.02)
    monkeypatch.setattr(page_cache, "_CACHESTAT", 1 << 20)
    assert page_cache.cached_share(request)["share"] == expected


def test_what_takes_too_long_is_unknown(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights(model / "model.safetensors", 1, warm_mib=1)
    monkeypatch.setattr(page_cache, "PATIENCE_S", -1.0)
    assert page_cache.cached_share({"paths": [str(model)], "environment": {}}) == {"share": None}


def test_without_ctypes_it_is_unknown(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights(model / "model.safetensors", 1, warm_mib=1)
    monkeypatch.setattr(page_cache, "_LIBC", None)
    assert page_cache.cached_share({"paths": [str(model)], "environment": {}}) == {"share": None}


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """Give an overlay's merged directory; its files' pages belong to the files below, and cachestat counts none."""
    places = {name: tmp_path / name for name in ("lower", "upper", "work", "merged")}
    for place in places.values():
        place.mkdir()
    options = f"lowerdir={places['lower']},upperdir={places['upper']},workdir={places['work']}"
    mount = ["mount", "-t", "overlay", "-o", options, "overlay", str(places["merged"])]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("an overlay cannot be mounted here")
    yield places["merged"]
    subprocess.run(["umount", places["merged"]], check=True)


def test_a_method_that_sees_nothing_is_not_believed(overlay: Path) -> None:
    path = overlay.parent / "lower" / "model.safetensors"
    weights(path, 2, warm_mib=1)
    merged = overlay / path.name
    descriptor = os.open(merged, os.O_RDONLY)
    facts = merged.stat()
    file = page_cache._File(str(merged), facts.st_size, facts.st_uid, facts.st_dev)
    is_blind = page_cache.by_cachestat(descriptor, file, file.size) == 0
    os.close(descriptor)
    share = page_cache.cached_share({"paths": [str(overlay)], "environment": {}})["share"]
    assert share == pytest.approx(0.5, abs=0.03)
    if is_blind:
        assert seen_by(NOBODY, merged) is None
