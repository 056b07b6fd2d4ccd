"""A local server that rebuilds: it watches the sources' times and tells open pages to reload.

The reload script is added to pages as they are served; the built site does not contain it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
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
_WATCHED = ("*.md", "*.bib", "_quarto.yml", "chapters/**/*", "scripts/render/**/*")


def stamp(root: Path, output: Path) -> dict[str, int]:
    """Modification times of everything a build reads."""
    found: dict[str, int] = {}
    for pattern in _WATCHED:
        for path in root.glob(pattern):
            if path.is_file() and output not in path.parents and "__pycache__" not in path.parts:
                found[str(path)] = path.stat().st_mtime_ns
    return found


class _Handler(SimpleHTTPRequestHandler):
    version = "0"

    def do_GET(self) -> None:
        if self.path == "/__version":
            self._send(200, self.version.encode(), "text/plain")
            return
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if path.suffix not in ("", ".html"):
            super().do_GET()
            return
        found = path.is_file()
        page = path if found else Path(str(self.directory)) / "404.html"
        self._send(200 if found else 404, page.read_bytes() + _RELOAD, "text/html; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(root: Path, output: Path, port: int, rebuild: Callable[[], None]) -> int:
    """Build, then serve ``output`` on the loopback address until interrupted."""
    if not 0 <= port <= 65535:
        raise BuildError([f"--port: expected 0 to 65535, found {port}"])
    rebuild()
    handler = partial(_Handler, directory=str(output))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise BuildError([f"--port {port}: {error.strerror}"]) from None
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
            except BuildError as error:
                print(
                    "\n".join(["build: mistakes; still serving the last good site", *error.lines]),
                    file=sys.stderr,
                )
    except KeyboardInterrupt:
        return 0
    finally:
        server.shutdown()
