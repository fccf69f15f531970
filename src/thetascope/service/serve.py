"""Running the service until it is told to stop."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from thetascope.decisions.routing.router import Router, make_router
from thetascope.encoders import encoder_for, load_vectors
from thetascope.errors import InputError, MissingExtra
from thetascope.service.app import Encode, build_app
from thetascope.service.limits import Limits
from thetascope.study import Study

try:
    import uvicorn
except ImportError:
    raise MissingExtra("Serving", "serve") from None

_SHUTDOWN_SECONDS = 10


class Server(uvicorn.Server):
    """A server that ends with status 0 on SIGTERM and SIGINT, once open requests are done."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Both signals begin the shutdown; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def encoder_of(study: Study, router: Router) -> Encode | None:
    """The study's encoder, loaded and warm; None for vectors made elsewhere."""
    if router.encoder is None:
        return lambda texts: np.zeros((len(texts), 1), np.float32)
    vectors = load_vectors(study, router.encoder, path=study.path)
    if vectors.encoder is None:
        return None
    encoder = encoder_for(vectors)
    encoder.encode(["warm"])
    return encoder.encode


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        InputError: The address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{host}:{port} cannot be listened on: {reason}", field="port") from None
    return made


def make_service(
    path: Path, predictor: str, encoder: str | None, limits: Limits
) -> tuple[Any, Router]:
    """The application of a study, and its router."""
    study = Study.open(path)
    router = make_router(study, predictor, encoder)
    return build_app(router, encoder_of(study, router), limits), router


def run_until_stopped(app: Any, listening: socket.socket) -> None:
    """Answers until SIGTERM or SIGINT."""
    log = logging.getLogger("thetascope.service")
    log.setLevel(logging.INFO)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off",
        timeout_keep_alive=15, timeout_graceful_shutdown=_SHUTDOWN_SECONDS, limit_concurrency=2000,
    )  # fmt: skip
    Server(config).run(sockets=[listening])
