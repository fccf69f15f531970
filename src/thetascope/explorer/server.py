"""Serving the explorer: until it is told to stop, or beside a notebook in a thread."""

from __future__ import annotations

import html
import logging
import socket
import threading
from pathlib import Path
from typing import Any

from thetascope.errors import MissingExtra, ThetascopeError
from thetascope.explorer.answers import Answers
from thetascope.explorer.app import App
from thetascope.explorer.contents import Contents
from thetascope.explorer.guard import Door, make_door
from thetascope.explorer.page import page_files
from thetascope.explorer.publish import folder_of
from thetascope.study import Study

try:
    import uvicorn

    from thetascope.service.serve import Server, bind
except ImportError:
    raise MissingExtra("Serving", "serve") from None

PORT = 8322
_FIRST = ("site.json", "overview.json", "items.parquet")
"""Made before anybody asks: what the first page shows."""
_GRACE_SECONDS = 5
_START_SECONDS = 30


def make_app(study: str | Path | Study, door: Door, title: str | None = None) -> App:
    """The application of a study.

    Args:
        study: The study's folder, or a study opened from one; it is only read.
        door: Whom it lets in.
        title: Of the page; the folder's name where None.

    Raises:
        InputError: There is no study there, or the page is not in this installation.
    """
    page = page_files()
    folder = folder_of(study)
    # whoever else may look, too, is not told where the study lies
    place = None if door.token is not None else folder
    contents = Contents(folder, title=title, answers=(), place=place)
    sources = contents.sources
    answers = Answers(sources.study, sources.material.bank, sources.material.place)
    contents.answers = answers.given
    sources.missing.update(answers.missing)
    for path in _FIRST:
        contents.read(path)
    return App(contents, page, answers, door)


def listen(host: str, port: int) -> tuple[socket.socket, Door]:
    """A socket that listens, and its door.

    Raises:
        InputError: The address cannot be had.
    """
    listening = bind(host, port)
    return listening, make_door(host, listening.getsockname()[1])


def run_until_stopped(app: App, listening: socket.socket) -> None:
    """Answers until SIGTERM or SIGINT."""
    _server(app).run(sockets=[listening])


class Explorer:
    """A running explorer; in a notebook it shows itself.

    Attributes:
        url: The address of the page.
    """

    def __init__(self, app: App, listening: socket.socket) -> None:
        self.url = app.door.url
        self._listening = listening
        self._server = _server(app)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True,
            name="thetascope-explorer",
        )  # fmt: skip
        self._thread.start()
        waited = threading.Event()
        for _ in range(_START_SECONDS * 50):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            waited.wait(0.02)
        raise ThetascopeError("the explorer's server did not start")

    def stop(self) -> None:
        """Ends the server; a second call does nothing."""
        self._server.should_exit = True
        self._thread.join(_GRACE_SECONDS + 5)
        self._listening.close()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Explorer({self.url!r})"

    def _repr_html_(self) -> str:
        """The page in an iframe."""
        return (
            f'<iframe src="{html.escape(self.url, quote=True)}" title="thetascope explorer"'
            ' width="100%" height="720" style="border:0"></iframe>'
        )


def explore(
    study: str | Path | Study, *, host: str = "127.0.0.1", port: int = 0, title: str | None = None
) -> Explorer:
    """Serves the explorer of a study in a thread beside this program.

    Args:
        study: The study's folder, or a study opened from one; it is only read.
        host: Address to listen on; other than loopback a token is demanded.
        port: Port; 0 for a free one.
        title: Of the page; the folder's name where None.

    Returns:
        A running explorer: `.url`, `.stop()`; in a notebook it shows the page.

    Raises:
        InputError: There is no study, or the address cannot be had.
        MissingExtra: The extra `serve` is not installed.
    """
    listening, door = listen(host, port)
    try:
        return Explorer(make_app(study, door, title), listening)
    except BaseException:
        listening.close()
        raise


def _server(app: Any) -> Server:
    logging.getLogger("thetascope.explorer").addHandler(logging.NullHandler())
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off",
        timeout_keep_alive=15, timeout_graceful_shutdown=_GRACE_SECONDS, limit_concurrency=2000,
    )  # fmt: skip
    return Server(config)
