"""The house server: the book's models behind OpenAI's protocol, on this machine only.

    with house_server() as url:
        httpx.post(url + "/v1/chat/completions", json={...})

starts one in a thread for a cell; ``modelcall serve`` runs one on its own. Both bind to loopback unless
told otherwise, and ask for no key. In cells the default is float64, so that what a page prints is the
same on every machine; on the command line it is float32, which is faster.

Which module does what: ``app`` HTTP, ``schema`` requests, ``build`` requests to jobs, ``worker`` the
thread that runs models, ``wire`` answers, ``errors`` error answers, ``prefixcache``, ``toolcalls``,
``metrics``, ``openapi``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import uvicorn
from numpy.typing import DTypeLike

from modelcall.lab import models
from modelcall.lab.server.app import App
from modelcall.lab.server.build import Served

__all__ = ["LOOPBACK", "Server", "house_server", "listen", "make_app"]

LOOPBACK: Final = "127.0.0.1"
GRACE_S: Final = 2.0
START_TIMEOUT_S: Final = 30.0


def make_app(
    loaded: Sequence[models.ChatModel], *, max_waiting: int = 16, blocked: Sequence[str] = ()
) -> App:
    """Return the application for models that are loaded already.

    Args:
        loaded: the models; the name of each is what requests call it.
        max_waiting: requests that may wait while one runs; the next gets 429.
        blocked: strings that no reply may contain; it ends before one, with ``content_filter``.
    """
    fingerprint = f"modelcall-{np.dtype(loaded[0].decoder.dtype).name}"
    served = {model.name: Served(model, tuple(blocked)) for model in loaded}
    return App(served, max_waiting=max_waiting, fingerprint=fingerprint)


def listen(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """Return a bound socket; port 0 takes a free one.

    Raises:
        OSError: the address is in use or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only a socket that says TCP gets TCP_NODELAY from asyncio. Without it, an answer in two packets waits
    # for the client's delayed acknowledgement, 40 ms on Linux.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


class Server(uvicorn.Server):
    """uvicorn with an end that does not wait for long replies.

    Args:
        app: from :func:`make_app`.
        grace_s: what runs may take this long to finish once the server is told to stop.
    """

    def __init__(self, app: App, *, grace_s: float = GRACE_S) -> None:
        config = uvicorn.Config(app.asgi, log_level="warning", lifespan="on", timeout_graceful_shutdown=10)
        super().__init__(config)
        self.app, self.grace_s = app, grace_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse what is new, let what runs finish or time out, then close."""
        self.app.closing = True
        self.app.worker.refuse()
        deadline = asyncio.get_running_loop().time() + self.grace_s
        while not self.app.worker.idle and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(self.app.worker.close)
        await super().shutdown(sockets)


@contextlib.contextmanager
def house_server(
    *names: str,
    dtype: DTypeLike = np.float64,
    port: int = 0,
    max_waiting: int = 16,
    blocked: Sequence[str] = (),
    loaded: Sequence[models.ChatModel] = (),
) -> Iterator[str]:
    """Run a server in a thread and yield its address, ``http://127.0.0.1:PORT``, without ``/v1``.

    Args:
        names: models to load, ``"house"`` by default; see :data:`modelcall.lab.models.MODELS`.
        dtype: of the arithmetic.
        port: 0 takes a free one.
        max_waiting, blocked: see :func:`make_app`.
        loaded: models at hand, instead of or beside those named.

    Raises:
        ModelError: a model cannot be loaded.
        OSError: the port is taken.
    """
    chosen = [*loaded, *(models.load(name, dtype) for name in names or (() if loaded else ("house",)))]
    sock = listen(LOOPBACK, port)
    server = Server(make_app(chosen, max_waiting=max_waiting, blocked=blocked), grace_s=0.0)
    thread = threading.Thread(target=server.run, args=([sock],), name="modelcall-server", daemon=True)
    thread.start()
    try:
        deadline = threading.Event()
        for _ in range(int(START_TIMEOUT_S / 0.005)):
            if server.started or not thread.is_alive():
                break
            deadline.wait(0.005)
        if not server.started:
            raise RuntimeError("the house server did not start")
        yield f"http://{LOOPBACK}:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
