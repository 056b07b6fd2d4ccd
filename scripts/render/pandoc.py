"""Pandoc as a function with a memory: text or tree in, tree or HTML out, cached on the content of the input.

A run's warnings are part of its result. They are cached with it, so a second build reports them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .problems import BuildError

__all__ = ["Pandoc", "identity", "write_atomic"]

_MINIMUM = (3, 1)  # the first with figures in the tree that both readers and writers agree on


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass
class Pandoc:
    """``cache`` is a folder that may be deleted at any time; files named in arguments lie in ``root``."""

    cache: Path
    root: Path | None = None
    runs: int = 0

    @cached_property
    def executable(self) -> tuple[str, str]:
        """Path and version of the Pandoc in use: the system's if new enough, else the wheel's."""
        found: list[str] = []
        for path in filter(None, (shutil.which("pandoc"), _wheel())):
            out = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            match = re.match(r"pandoc(?:\.exe)? (\d+)\.(\d+)\S*", out)
            if match and (int(match[1]), int(match[2])) >= _MINIMUM:
                return path, match[0]
            found.append(f"{path} ({match[0] if match else 'does not run'})")
        seen = f"found only {', '.join(found)}" if found else "found none"
        raise BuildError([f"pandoc: expected 3.1 or newer, {seen}; `pip install pypandoc_binary` brings one"])

    def tree(self, markdown: str) -> tuple[dict[str, Any], list[str]]:
        """Parse Markdown; return Pandoc's JSON tree and the warnings."""
        out, warnings = self._run(["-f", "markdown", "-t", "json"], markdown)
        return json.loads(out), warnings

    def html_tree(self, markup: str) -> dict[str, Any]:
        """Parse HTML; return Pandoc's JSON tree."""
        tree: dict[str, Any] = json.loads(self._run(["-f", "html", "-t", "json"], markup)[0])
        return tree

    def write(self, blocks: list[Any], arguments: Sequence[str], meta: dict[str, Any], salt: str = "") -> str:
        """Write blocks in the format that ``arguments`` say; warnings are those that ``html`` reported."""
        tree = {"pandoc-api-version": [1, 23, 1], "meta": meta, "blocks": blocks}
        text = json.dumps(tree, ensure_ascii=False, sort_keys=True)
        return self._run(["-f", "json", *arguments], text, salt)[0]

    def html(
        self, blocks: list[Any], meta: dict[str, Any] | None = None, extra: Sequence[str] = (), salt: str = ""
    ) -> tuple[str, list[str]]:
        """Write blocks as an HTML5 fragment with MathML; ``salt`` stands for files named in ``extra``."""
        tree = {"pandoc-api-version": [1, 23, 1], "meta": meta or {}, "blocks": blocks}
        flags = ["-f", "json", "-t", "html5", "--mathml", "--wrap=none", "--email-obfuscation=none"]
        return self._run([*flags, *extra], json.dumps(tree, ensure_ascii=False, sort_keys=True), salt)

    def _run(self, arguments: list[str], text: str, salt: str = "") -> tuple[str, list[str]]:
        # The version is cached too: asking the executable costs more than everything else in a warm build.
        digest = hashlib.sha256("\0".join([identity(), *arguments, salt, text]).encode()).hexdigest()
        path = self.cache / f"{digest[:40]}.json"
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            os.utime(path)
            return stored["out"], stored["warnings"]
        except (OSError, ValueError, KeyError):
            pass
        self.runs += 1
        done = subprocess.run(
            [self.executable[0], *arguments],
            input=text.encode(),
            capture_output=True,
            check=False,
            cwd=self.root,
        )
        errors = done.stderr.decode(errors="replace")
        if done.returncode:
            raise BuildError([f"pandoc: {errors.strip() or f'exit status {done.returncode}'}"])
        warnings = [part.strip() for part in re.split(r"^\[WARNING\] ", errors, flags=re.M) if part.strip()]
        stored = {"out": done.stdout.decode(), "warnings": warnings}
        write_atomic(path, json.dumps(stored, ensure_ascii=False).encode())
        return stored["out"], warnings


def _wheel() -> str | None:
    try:
        import pypandoc

        return str(pypandoc.get_pandoc_path())
    except (ImportError, OSError):
        return None


def identity() -> str:
    """What changes when another Pandoc is installed, without starting it."""
    path = shutil.which("pandoc") or ""
    if not path:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return f"pypandoc_binary {version('pypandoc_binary')}"
        except PackageNotFoundError:
            return ""
    return f"{path} {Path(path).stat().st_mtime_ns}"
