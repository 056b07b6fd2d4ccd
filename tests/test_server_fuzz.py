"""schemathesis, which reads the server's own OpenAPI description, against a running server.

It tries what the description allows, what it forbids, and the edges between; every answer must have a status
and a body that the description knows, within ten seconds, and never be a failure of the server. That a
deadline the caller set himself passes (504) is no such failure. Rules between fields are not in the
description, so a request that fits it may still be refused; that check is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serving import serving

BUDGET_S = 60
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "504"]
"""


@pytest.mark.long
def test_nothing_that_fits_the_description_or_not_breaks_the_server(tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    with serving() as server:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
        command += [server.url + "/openapi.json", "--phases", "coverage,fuzzing", "--no-color"]
        command += ["--max-time", str(BUDGET_S), "--generation-deterministic", "--request-timeout", "10"]
        command += ["--exclude-checks", "positive_data_acceptance", "--suppress-health-check", "all"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=BUDGET_S + 120,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        # It did its work: every path, and more than a handful of requests.
        assert re.search(r"Tested: 6\b", done.stdout), done.stdout[-2000:]
        generated = re.search(r"(\d+) generated", done.stdout)
        assert generated is not None and int(generated[1]) > 300, done.stdout[-2000:]
        assert server.chat().json()["choices"][0]["message"]["content"] == "Hello there."
        server.until(lambda: server.server.app.worker.counts() == (0, 0), "the queue to empty")
        paths = {
            path
            for path in ("/v1/chat/completions", "/v1/completions")
            for status in ("200", "400")
            if server.metric(f'modelcall_requests_total{{path="{path}",status="{status}"}}') > 20
        }
        assert len(paths) == 2
