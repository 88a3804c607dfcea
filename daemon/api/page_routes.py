"""Routes of the page: the files of `page/`, read once, each with a hash for the browser's cache."""

from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _PageFile(NamedTuple):
    body: bytes
    media_type: str
    etag: str


def page_routes(directory: Traversable) -> APIRouter:
    """Return the routes of the files in a directory; `/` is `index.html`."""
    router = APIRouter(include_in_schema=False)
    found = {
        entry.name: _read(entry)
        for entry in directory.iterdir()
        if any(entry.name.endswith(suffix) for suffix in MEDIA_TYPES)
    }

    def answer(name: str, request: Request) -> Response:
        if name not in found:
            raise HTTPException(404, "there is no such file")
        file = found[name]
        headers = {"etag": file.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.body, media_type=file.media_type, headers=headers)

    @router.get("/")
    async def index(request: Request) -> Response:
        return answer("index.html", request)

    @router.get("/page/{name}")
    async def page(name: str, request: Request) -> Response:
        return answer(name, request)

    return router


def _read(entry: Traversable) -> _PageFile:
    body = entry.read_bytes()
    suffix = entry.name[entry.name.rindex(".") :]
    return _PageFile(body, MEDIA_TYPES[suffix], f'"{sha256(body).hexdigest()[:16]}"')
