"""The tokenizer's ranks: the published file, found by tiktoken without a network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelcall.lab.paths import data_dir

RANKS = data_dir("tokenizer") / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"

# Ends the child if it opens a socket at all, then encodes a text that cl100k_base splits in a known way.
OFFLINE = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened")
socket.socket = refuse
import modelcall
import tiktoken
encoding = tiktoken.get_encoding("cl100k_base")
assert encoding.encode("hello world") == [15339, 1917], encoding.encode("hello world")
assert encoding.decode(encoding.encode("Wagnersløv 🙂")) == "Wagnersløv 🙂"
print(encoding.n_vocab)
"""


def child(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIKTOKEN")}
    env.pop("DATA_GYM_CACHE_DIR", None)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env | variables, capture_output=True, text=True, check=False)


def test_the_file_is_the_published_one() -> None:
    digest = hashlib.sha256(RANKS.read_bytes()).hexdigest()
    assert digest == "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
    readme = (Path(RANKS).parent / "README.md").read_text(encoding="utf-8")
    assert digest in readme and RANKS.name in readme


def test_cl100k_base_loads_and_encodes_without_a_socket() -> None:
    done = child(OFFLINE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100277\n"


def test_without_the_package_the_same_process_needs_a_socket(tmp_path: Path) -> None:
    """The other side of the test above: it is the import of modelcall that makes it pass."""
    done = child(OFFLINE.replace("import modelcall\n", ""), TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert done.returncode != 0


@pytest.mark.parametrize("folder", ["/nowhere/chosen/by/the/reader", ""])
def test_a_cache_folder_that_is_set_already_is_respected(folder: str) -> None:
    done = child("import modelcall, os; print(os.environ['TIKTOKEN_CACHE_DIR'])", TIKTOKEN_CACHE_DIR=folder)
    assert done.stdout == f"{folder}\n"


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = child("import sys, modelcall; print(*sorted({name.partition('.')[0] for name in sys.modules}))")
    assert done.returncode == 0, done.stderr
    heavy = {"numpy", "matplotlib", "tiktoken", "regex", "httpx", "pydantic", "IPython", "ipywidgets"}
    assert set(done.stdout.split()).isdisjoint(heavy | {"starlette", "uvicorn"})


def test_importing_the_package_sets_one_variable_and_no_more() -> None:
    code = "import os; b = dict(os.environ); import modelcall; print(sorted({*os.environ} - {*b}))"
    assert child(code).stdout == "['TIKTOKEN_CACHE_DIR']\n"
