"""A local server that rebuilds: it watches the sources' times and tells open pages to reload.

The reload script is added to pages as they are served; the built site does not contain it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .problems import BuildError

__all__ = ["serve", "stamp"]

_RELOAD = b"""<script>(function poll(seen) {
  fetch("/__version").then(r => r.text()).then(now => {
    if (seen && now !== seen) location.reload(); else setTimeout(poll, 700, now);
  }).catch(() => setTimeout(poll, 3000, seen));
})();</script>"""
_LOOKS, _MOMENT_S = 3, 0.02
_WATCHED = ("*.md", "*.bib", "_quarto.yml", "chapters/**/*", "scripts/render/**/*")


def stamp(root: Path, output: Path) -> dict[str, int]:
    """Modification times of everything a build reads."""
    found: dict[str, int] = {}
    for pattern in _WATCHED:
        for path in root.glob(pattern):
            if output in path.parents or "__pycache__" in path.parts:
                continue
            with suppress(OSError):  # an editor may replace a file by deleting it first
                if path.is_file():
                    found[str(path)] = path.stat().st_mtime_ns
    return found


class _Handler(SimpleHTTPRequestHandler):
    version = "0"

    def do_GET(self) -> None:
        if self.path == "/__version":
            self._send(200, self.version.encode(), "text/plain")
            return
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if self.path.split("?")[0].endswith("/") or path.is_dir() else path
        if path.suffix not in ("", ".html"):
            super().do_GET()
            return
        page, missing = _content(path), Path(str(self.directory)) / "404.html"
        text = page if page is not None else _content(missing) or b""
        self._send(404 if page is None else 200, text + _RELOAD, "text/html; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a browser need not wait for the rest
            super().handle_error(request, client_address)


def _content(page: Path) -> bytes | None:
    """What a page says; between two sites there is none for a moment."""
    for _ in range(_LOOKS):
        with suppress(FileNotFoundError, NotADirectoryError):
            return page.read_bytes()
        time.sleep(_MOMENT_S)
    return None


def serve(root: Path, output: Path, port: int, rebuild: Callable[[], None]) -> int:
    """Build, then serve ``output`` on the loopback address until interrupted."""
    if not 0 <= port <= 65535:
        raise BuildError([f"--port: expected 0 to 65535, found {port}"])
    handler = partial(_Handler, directory=str(output))
    try:
        server = _Server(("127.0.0.1", port), handler)
    except OSError as error:
        raise BuildError(
            [f"--port {port}: {error.strerror}; name another, as in `make serve PORT=8001`"]
        ) from None
    with server:
        rebuild()
        return _watch(server, root, output, rebuild)


def _watch(server: _Server, root: Path, output: Path, rebuild: Callable[[], None]) -> int:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving http://127.0.0.1:{server.server_port}/ (Ctrl+C ends)", file=sys.stderr, flush=True)
    seen = stamp(root, output)
    try:
        while True:
            time.sleep(0.5)
            now = stamp(root, output)
            if now == seen:
                continue
            seen = now
            try:
                rebuild()
                _Handler.version = str(time.time_ns())
            except (BuildError, OSError) as error:
                lines = error.lines if isinstance(error, BuildError) else [str(error)]
                print(
                    "\n".join(["build: mistakes; still serving the last good site", *lines]), file=sys.stderr
                )
    except KeyboardInterrupt:
        return 0
    finally:
        server.shutdown()
