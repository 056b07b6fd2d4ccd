"""A reader's folder of notebooks: new ones are put in, edited ones are never overwritten.

What was put in is remembered by a hash of its cells' sources, in a hidden file of the folder. A notebook
whose sources still have that hash was run at most, and gives way to a newer one. Another is the reader's own
work: it stays, and the newer one is laid beside it under a name of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path

from render.pandoc import write_atomic
from render.problems import BuildError

__all__ = ["MEMORY", "update"]

MEMORY = ".put-here.json"


def update(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Bring the notebooks among ``files`` into ``folder``; return what a reader should know, line by line.

    Raises:
        BuildError: the folder is a file, or its memory cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise BuildError([f"{folder}: is a file; expected a folder of notebooks"])
    memory = _memory(folder / MEMORY)
    said: list[str] = []
    fresh = 0
    for published, data in files.items():
        if not published.endswith(".ipynb"):
            continue
        name = published.removeprefix("notebooks/")
        path, new = folder / name, sources_hash(data)
        if path.is_file():
            here = sources_hash(path.read_bytes())
            if here == new:
                memory[name] = new
                continue
            if here != memory.get(name):
                if memory.get(name) != new:
                    beside = _beside(path, folder, memory)
                    write_atomic(beside, data)
                    memory[name] = memory[beside.relative_to(folder).as_posix()] = new
                    said.append(f"{path} has your edits and stays; the book's newer one is {beside.name}")
                continue
        write_atomic(path, data)
        memory[name] = new
        fresh += 1
    write_atomic(folder / MEMORY, (json.dumps(memory, indent=1, sort_keys=True) + "\n").encode())
    return [f"{fresh} notebook{'s' * (fresh != 1)} written into {folder}", *said] if fresh or said else []


def _beside(path: Path, folder: Path, memory: Mapping[str, str]) -> Path:
    """A name next to ``path`` that is free, or has what was put there and nobody edited since."""
    stems = itertools.chain([f"{path.stem}-new"], (f"{path.stem}-new-{i}" for i in itertools.count(2)))
    names = (path.with_name(f"{stem}.ipynb") for stem in stems)

    def unedited(name: Path) -> bool:
        return sources_hash(name.read_bytes()) == memory.get(name.relative_to(folder).as_posix())

    return next(name for name in names if not name.exists() or (name.is_file() and unedited(name)))


def sources_hash(data: bytes) -> str:
    """A hash of what a notebook's cells say, without their outputs; of the bytes if it is no notebook."""
    try:
        cells = json.loads(data)["cells"]
        text = json.dumps([[cell["cell_type"], "".join(cell["source"])] for cell in cells])
    except (ValueError, KeyError, TypeError):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()


def _memory(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in found.items()}
    except (ValueError, AttributeError) as error:
        raise BuildError(
            [f"{path}: {error}; delete it, and edited notebooks are kept all the same"]
        ) from error
