"""Pictures and tables as answers: SVG that can load and run nothing, CSV that is saved and not shown."""

from typing import Any

from fastapi.responses import Response

SVG, CSV = "image/svg+xml", "text/csv"
_SAFE = {"X-Content-Type-Options": "nosniff"}
SVG_HEADERS = {**_SAFE, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
SVG_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture.", "content": {SVG: {"schema": {"type": "string"}}}}
}
CSV_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The numbers of the picture (RFC 4180).", "content": {CSV: {"schema": {"type": "string"}}}}
}


def svg_response(svg: str) -> Response:
    """Return a picture; a browser that shows it by itself runs no script and loads nothing for it."""
    return Response(svg, media_type=SVG, headers=SVG_HEADERS)


def csv_response(csv: str, name: str) -> Response:
    """Return a table to be saved under `name`, which is ours and needs no quoting."""
    return Response(csv, media_type=CSV, headers={**_SAFE, "Content-Disposition": f'attachment; filename="{name}"'})
