"""The page for operators: built files of the package, served from memory with a strict content security policy."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from service.api.access import GuardedRoute, needs_no_token
from service.errors import NotFound

BUILT = Path(__file__).parents[1] / "page"
ENTRY = "index.html"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing comes from elsewhere, and nothing inline runs or styles."""
SECURITY = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Vigil</title>
<h1>The page is not built</h1>
<p>The API works: see <a href="/docs">/docs</a>. The page needs npm once, to be built:
install Node.js 20.19 or newer with npm, run <code>make web</code>, and restart the service.</p></html>
"""


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """One file of the page, with what is sent of it."""

    body: bytes
    zipped: bytes
    media_type: str
    etag: str
    is_named_by_content: bool
    """Its name changes with its content, so that browsers may keep it for ever."""


def pages_router(built: Path = BUILT) -> APIRouter:
    """Return the routes of the page, whose files are read now; where it is not built, `/` says what is missing."""
    files = _read(built)
    router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

    @router.get("/")
    @needs_no_token
    async def get_page(request: Request) -> Response:
        """Give the page itself; it holds nothing that a token guards."""
        entry = files.get(ENTRY)
        return _answer(request, entry) if entry else HTMLResponse(NOT_BUILT, status_code=503, headers=SECURITY)

    @router.get("/assets/{name}")
    @needs_no_token
    async def get_asset(name: str, request: Request) -> Response:
        """Give a script or style of the page."""
        return _answer(request, _found(files, f"assets/{name}"))

    @router.get("/vigil.svg")
    @needs_no_token
    async def get_icon(request: Request) -> Response:
        """Give the icon of the page."""
        return _answer(request, _found(files, "vigil.svg"))

    return router


def _read(built: Path) -> Mapping[str, BuiltFile]:
    """Return the built files by their path; those of no known type are not served."""
    paths = [path for path in sorted(built.rglob("*")) if path.suffix in MEDIA_TYPES]
    return {path.relative_to(built).as_posix(): _file(path) for path in paths}


def _file(path: Path) -> BuiltFile:
    body = path.read_bytes()
    return BuiltFile(
        body=body,
        zipped=gzip.compress(body, 9, mtime=0),
        media_type=MEDIA_TYPES[path.suffix],
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        is_named_by_content=path.parent.name == "assets",
    )


def _found(files: Mapping[str, BuiltFile], path: str) -> BuiltFile:
    if path not in files:
        raise NotFound(f"the page has no file {path}")
    return files[path]


def _answer(request: Request, file: BuiltFile) -> Response:
    headers = {
        **SECURITY,
        "ETag": file.etag,
        "Cache-Control": "public, max-age=31536000, immutable" if file.is_named_by_content else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)
