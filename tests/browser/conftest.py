"""The built site in a real browser: one build, one server on loopback, one headless Chromium."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.render.sample import write

from render.site import build

ROOT = Path(__file__).resolve().parent.parent.parent
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The background services of a fresh profile would look up hosts that no test asked for.
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def chromium() -> str | None:
    """The system's Chromium, or the one that ``MODELCALL_CHROMIUM`` names, or None."""
    return os.environ.get("MODELCALL_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the embedded renderer into a folder of its own."""
    out = tmp_path_factory.mktemp("site") / "_book"
    command = [sys.executable, "scripts/build.py", "--renderer", "embedded", "--output", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return out


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Answers as static hosts do: a missing address, however deep, gets the site's 404 page."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the tests look at responses, not at a log."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        body = (Path(self.directory) / "404.html").read_bytes() if self.command == "GET" else b""
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="session")
def origin(site: Path) -> Iterator[str]:
    yield from served(site)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a book that uses every construct of the renderer, once."""
    yield from served(build(write(tmp_path_factory.mktemp("sample"))).output)


def served(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# For a module and not for the session: while it is open, Playwright keeps an event loop running in this
# thread, and a test of something else that starts its own would find it there.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: the checks in a real browser were not run")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield launched
        launched.close()
