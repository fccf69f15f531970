"""The built page that is shipped with the package: index.html and its assets."""

from __future__ import annotations

from importlib.resources import files as resources
from importlib.resources.abc import Traversable

from thetascope.errors import InputError

INDEX = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8", "json": "application/json", "svg": "image/svg+xml",
    "woff2": "font/woff2", "png": "image/png", "ico": "image/x-icon", "wasm": "application/wasm",
    "txt": "text/plain; charset=utf-8", "parquet": "application/vnd.apache.parquet",
}  # fmt: skip
"""Media type by ending."""


def page_files() -> dict[str, bytes]:
    """The page's files by path, in order.

    Raises:
        InputError: The page was not built into this installation.
    """
    found = dict(sorted(_walk(resources("thetascope.explorer") / "page", "")))
    if INDEX not in found:
        raise InputError("the explorer's page is not in this installation of thetascope",
                         fix="build it with: make web")  # fmt: skip
    return found


def media_type(path: str) -> str:
    """Of a file, by its ending."""
    return TYPES.get(path.rpartition(".")[2], "application/octet-stream")


def _walk(folder: Traversable, before: str) -> list[tuple[str, bytes]]:
    if not folder.is_dir():
        return []
    out: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.name.startswith(("_", ".")) or entry.name.endswith((".py", ".pyc")):
            continue
        name = before + entry.name
        out += _walk(entry, f"{name}/") if entry.is_dir() else [(name, entry.read_bytes())]
    return out
