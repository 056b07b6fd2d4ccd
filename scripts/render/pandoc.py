"""Pandoc as a function with a memory: text or tree in, tree or HTML out, cached on the content of the input.

A conversion's warnings are part of its result. They are cached with it, so a second build reports them again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from . import converter
from .parallel import Job, Piece, cores
from .problems import BuildError

__all__ = ["Pandoc", "identity", "nocite", "write_atomic"]

_MINIMUM = (3, 8)  # the first whose Lua interface says what a conversion warned of, as tested here
_API = [1, 23, 1]
_PATIENCE_S = 20  # for its version
_HTML = {"html_math_method": "mathml", "wrap_text": "none", "email_obfuscation": "none"}


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk has none, and the temporary one says nothing
        raise
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Question:
    """One conversion; with a ``bibliography``, citeproc writes the words of the citations."""

    source: str
    target: str
    text: str
    options: dict[str, str] = field(default_factory=dict)
    bibliography: Path | None = None

    @property
    def job(self) -> dict[str, Any]:
        job = {"from": self.source, "to": self.target, "options": self.options}
        return {**job, "bibliography": str(self.bibliography)} if self.bibliography else job

    @cached_property
    def key(self) -> str:
        # The version is part of it, without asking the executable: that costs more than a warm build.
        what = [identity(), self.source, self.target, json.dumps(self.options), self.text]
        parts = [part.encode() for part in what]
        parts += [self.bibliography.read_bytes()] if self.bibliography else []
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:40]


@dataclass
class Pandoc:
    """``cache`` is a folder that may be deleted at any time."""

    cache: Path
    # Conversions that the cache did not have, those in forks too.
    _runs: Any = field(default_factory=lambda: multiprocessing.Value("i", 0))

    @property
    def runs(self) -> int:
        return int(self._runs.value)

    @cached_property
    def executable(self) -> tuple[str, str]:
        """Path and version of the Pandoc in use: the system's if new enough, else the wheel's."""
        found: list[str] = []
        for path in filter(None, (shutil.which("pandoc"), _wheel())):
            match = re.match(r"pandoc(?:\.exe)? (\d+)\.(\d+)\S*", _said([path, "--version"]))
            if match and (int(match[1]), int(match[2])) >= _MINIMUM:
                return path, match[0]
            found.append(f"{path} ({match[0] if match else 'does not run'})")
        seen = f"found only {', '.join(found)}" if found else "found none"
        least = ".".join(map(str, _MINIMUM))
        raise BuildError(
            [f"pandoc: expected {least} or newer, {seen}; `pip install pypandoc_binary` brings one"]
        )

    def ready(self, pieces: int) -> None:
        """Prepare for ``pieces`` of work on all cores."""
        if pieces > 1:
            converter.start(self.executable[0], min(pieces, cores()))

    def tree(self, markdown: str) -> tuple[dict[str, Any], list[str]]:
        """Parse Markdown; return Pandoc's JSON tree and the warnings."""
        out, warnings = self._answer(_Question("markdown", "json", markdown.expandtabs(4)))
        return json.loads(out), warnings

    def trees(self, texts: Sequence[str]) -> Job[list[tuple[dict[str, Any], list[str]]]]:
        """The same for several texts."""
        questions = [_Question("markdown", "json", text.expandtabs(4)) for text in texts]
        answers = [self._stored(question) for question in questions]
        new = [question for question, answer in zip(questions, answers, strict=True) if answer is None]
        self.ready(len(new))
        made = iter((yield [Piece(partial(self._answer, question), len(question.text)) for question in new]))
        both = [answer or next(made) for answer in answers]
        return [(json.loads(out), warnings) for out, warnings in both]

    def html_tree(self, markup: str) -> dict[str, Any]:
        """Parse HTML; return Pandoc's JSON tree."""
        out, _ = self._answer(_Question("html", "json", markup.expandtabs(4)))
        tree: dict[str, Any] = json.loads(out)
        return tree

    def write(self, blocks: list[Any], form: str) -> str:
        """Write blocks in the format ``form``, lines unwrapped; warnings are those that ``html`` reported."""
        return self._answer(_Question("json", form, _document(blocks), {"wrap_text": "none"}))[0]

    def html(self, blocks: list[Any]) -> tuple[str, list[str]]:
        """Write blocks as an HTML5 fragment with MathML; return it and the warnings."""
        return self._answer(_Question("json", "html5", _document(blocks), _HTML))

    def cited(self, blocks: list[Any], bibliography: Path, keys: list[str]) -> tuple[list[Any], list[str]]:
        """Let citeproc write the words of citations; return the blocks and the warnings.

        The list of works comes last, or in the Div ``refs`` if there is one. It has all ``keys``, so that
        2020a and 2020b mean the same wherever the same keys are given.
        """
        meta = {
            "link-citations": {"t": "MetaBool", "c": True},
            "nocite": {"t": "MetaInlines", "c": [nocite(keys)]},
        }
        question = _Question("json", "json", _document(blocks, meta), bibliography=bibliography)
        out, warnings = self._answer(question)
        return json.loads(out)["blocks"], warnings

    def _answer(self, question: _Question) -> tuple[str, list[str]]:
        if stored := self._stored(question):
            return stored
        with self._runs.get_lock():
            self._runs.value += 1
        out, warnings = converter.convert(self.executable[0], question.job, question.text.encode())
        made = json.dumps({"out": out, "warnings": warnings}, ensure_ascii=False)
        write_atomic(self._path(question), made.encode())
        return out, warnings

    def _stored(self, question: _Question) -> tuple[str, list[str]] | None:
        path = self._path(question)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            os.utime(path)
            return stored["out"], stored["warnings"]
        except (OSError, ValueError, KeyError):
            return None

    def _path(self, question: _Question) -> Path:
        return self.cache / f"{question.key}.json"


def nocite(keys: list[str]) -> dict[str, Any]:
    """Works that count as cited, as Pandoc's metadata has them."""
    mode = {"t": "AuthorInText"}
    shared = {"citationPrefix": [], "citationSuffix": [], "citationNoteNum": 0, "citationHash": 0}
    return {"t": "Cite", "c": [[{"citationId": key, "citationMode": mode, **shared} for key in keys], []]}


def _document(blocks: list[Any], meta: dict[str, Any] | None = None) -> str:
    tree = {"pandoc-api-version": _API, "meta": meta or {}, "blocks": blocks}
    return json.dumps(tree, ensure_ascii=False)


def _said(command: list[str]) -> str:
    """What a command says; "" if it does not run, or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _wheel() -> str | None:
    try:
        import pypandoc

        return str(pypandoc.get_pandoc_path())
    except (ImportError, OSError):
        return None


@cache
def _wheel_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"pypandoc_binary {version('pypandoc_binary')}"
    except PackageNotFoundError:
        return ""


@cache
def _script() -> str:
    return hashlib.sha256(converter.SCRIPT.read_bytes()).hexdigest()


def identity() -> str:
    """What changes when another Pandoc is installed or it is used in another way, without starting it."""
    path = shutil.which("pandoc")
    system = f"{path} {Path(path).stat().st_mtime_ns}" if path else ""
    return f"{system} {_wheel_version()} {_script()}"  # the wheel's too: an old one of the system gives way
