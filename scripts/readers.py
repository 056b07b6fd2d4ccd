"""Derive the readers' notebooks: the pages as plain Jupyter notebooks, complete and for students.

    python scripts/readers.py --lab notebooks     put them into a folder to work in; edited ones stay
    python scripts/readers.py --output out        write notebooks/ and wheels/ as the site publishes them

``derive`` is what the site's build calls. Sources are the executed twins in ``chapters/`` and the numbers
that the embedded renderer gave them; nothing is run. A notebook has no Quarto syntax left, and its first cell
finds the package or installs the published wheel.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import lab_folder
import readers_setup
from render.citations import Citations, citations
from render.config import Book, load
from render.crossref import Register
from render.downloads import COMPLETE, STUDENT, forms
from render.drafts import Draft, read_pages
from render.memory import Memory, numbers
from render.pandoc import Pandoc, write_atomic
from render.parallel import Job, Piece, beside, together
from render.problems import BuildError, Problems

if TYPE_CHECKING:  # a build with nothing to make does without nbformat, which takes long to import
    from readers_page import Made

__all__ = ["COMPLETE", "STUDENT", "ahead", "derive", "files", "main"]

ROOT = Path(__file__).resolve().parent.parent


def files(root: Path) -> dict[str, bytes]:
    """Everything that the site publishes beside its pages: notebooks in both forms, and the wheel.

    Raises:
        BuildError: a source has mistakes; each is named with its file and cell.
    """
    problems = Problems()
    book = load(root, problems)
    pandoc = Pandoc(root / ".quarto" / "embedded" / "pandoc")
    register = Register()
    with beside(ahead(root, pandoc.cache.parent)):
        (drafts,) = together(read_pages(book, pandoc, register, problems))
    problems.raise_if_any()
    (made,) = together(derive(book, drafts, register, pandoc, problems))
    problems.raise_if_any()
    return dict(made)


def ahead(root: Path, cache: Path) -> Callable[[], object] | None:
    """What can be done before the pages are read: the wheel, if ``cache`` does not have it."""
    return None if readers_setup.kept(root, cache) else partial(readers_setup.wheel, root, cache)


def derive(
    book: Book, drafts: Sequence[Draft], register: Register, pandoc: Pandoc, problems: Problems
) -> Job[dict[str, bytes]]:
    """The same for a site that is being built: its pages are numbered, and its mistakes collected."""
    wheel = readers_setup.wheel(book.root, pandoc.cache.parent)
    made = {f"{readers_setup.FOLDER}/{wheel.name}": wheel.data} if wheel else {}
    written = [draft for draft in drafts if draft.page.path.endswith(".ipynb")]
    if problems.lines:  # nothing will be written, but the pages' links go somewhere
        yield []
        return made | {f"{form}/{Path(d.page.path).name}": b"" for d in written for form in forms(d.page)}
    said = citations(book, [draft.tree for draft in drafts], pandoc)
    works = json.dumps([said.words, said.works]).encode()
    shared = [numbers(register, book), works, wheel.sha256.encode() if wheel else b""]
    memory = Memory(pandoc.cache.with_name("notebooks"), shared)
    missing: list[tuple[str, Piece]] = []
    for draft in written:
        text = (book.root / draft.page.path).with_suffix(".md")
        parts = [
            draft.source.text.encode(),
            draft.chapter.encode(),
            (book.root / draft.page.path).read_bytes(),
        ]
        key = memory.key([*parts, text.read_bytes() if text.is_file() else b""])
        if kept := memory.recall(key):
            made |= {name: text.encode() for name, text in kept.items()}
        else:
            work = partial(_page, book, draft, register, pandoc, said, wheel)
            missing.append((key, Piece(work, 2 * len(draft.source.text))))
    results: list[Made] = yield [piece for _, piece in missing]
    for (key, _), one in zip(missing, results, strict=True):
        made |= {name: text.encode() for name, text in one.texts.items()}
        problems.lines |= one.problems.lines
        if not one.problems.lines and not one.attached:  # the key knows no file of an image
            memory.keep(key, one.texts)
    return made


def _page(
    book: Book,
    draft: Draft,
    register: Register,
    pandoc: Pandoc,
    said: Citations,
    wheel: readers_setup.Wheel | None,
) -> Made:
    from readers_page import made

    return made(book, draft, register, pandoc, said, wheel)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Derive the readers' notebooks.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--lab", metavar="FOLDER", help="a folder to work in; edited notebooks stay as they are"
    )
    where.add_argument("--output", metavar="FOLDER", help="write what the site publishes")
    options = parser.parse_args(arguments)
    try:
        made = files(root)
        if options.output:
            for name, data in made.items():
                write_atomic(Path(options.output, name), data)
            print(f"readers: {len(made)} files in {options.output}", file=sys.stderr)
        else:
            for line in lab_folder.update(Path(options.lab), made):
                print(f"readers: {line}", file=sys.stderr)
    except BuildError as error:
        for line in error.lines:
            print(f"readers: {line}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"readers: {error.filename or root}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
