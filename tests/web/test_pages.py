"""How the built page is served: from memory, compressed, kept by browsers, unable to load from elsewhere."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from service.api import problems
from service.api.pages import pages_router

SCRIPT = "console.log('vigil');\n" * 50


def client_of(built: Path) -> httpx2.AsyncClient:
    app = FastAPI()
    app.include_router(pages_router(built))
    problems.install(app)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost")


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of a page of two files, beside which lies one that is nobody's business."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<title>Vigil</title>")
    (tmp_path / "assets" / "index-abc.js").write_text(SCRIPT)
    (tmp_path / "assets" / "notes.txt").write_text("not served")
    (tmp_path.parent / "secret.js").write_text("not served")
    async with client_of(tmp_path) as client:
        yield client


async def test_the_page_is_asked_for_again_each_time_and_its_files_never(http: httpx2.AsyncClient) -> None:
    page = await http.get("/")
    assert (page.status_code, page.text) == (200, "<title>Vigil</title>")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    again = await http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    script = await http.get("/assets/index-abc.js")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_files_are_sent_compressed_to_who_can_read_that(http: httpx2.AsyncClient) -> None:
    plain = await http.get("/assets/index-abc.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == SCRIPT
    async with http.stream("GET", "/assets/index-abc.js", headers={"Accept-Encoding": "gzip"}) as zipped:
        assert zipped.headers["content-encoding"] == "gzip"
        assert zipped.headers["vary"] == "Accept-Encoding"
        sent = b"".join([part async for part in zipped.aiter_raw()])
    assert len(sent) < len(SCRIPT) / 5
    assert gzip.decompress(sent).decode() == SCRIPT


@pytest.mark.parametrize("path", ["/", "/assets/index-abc.js"])
async def test_nothing_inline_and_nothing_from_elsewhere_is_allowed(http: httpx2.AsyncClient, path: str) -> None:
    headers = (await http.get(path)).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["notes.txt", "absent.js", "..%2Findex.html", "..%2F..%2Fsecret.js"])
async def test_only_files_of_the_page_are_served(http: httpx2.AsyncClient, name: str) -> None:
    assert (await http.get(f"/assets/{name}")).status_code == 404


async def test_where_the_page_is_not_built_it_says_what_is_missing(tmp_path: Path) -> None:
    async with client_of(tmp_path / "absent") as http:
        answer = await http.get("/")
    assert answer.status_code == 503
    assert "needs npm" in answer.text
    assert "make web" in answer.text
