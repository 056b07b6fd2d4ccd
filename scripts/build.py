"""Build the book's site: with Quarto where it is installed, else with the embedded renderer.

    python scripts/build.py                      build into _book/ and print its address
    python scripts/build.py --serve --port 8000  build, serve on this machine, rebuild when a source changes
    python scripts/build.py --inventory x.json   after a build, write what its pages say, to compare builds by
    python scripts/build.py --epub               the site with the book as an EPUB in it (embedded renderer)
    python scripts/build.py --check-links        after a build, check every link of the site

Both renderers read the same ``_quarto.yml``, Markdown and executed notebooks; neither runs a cell. Beside the
pages the site has the readers' notebooks and the package's wheel (``readers``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are read there is nothing to tidy

sys.path.insert(0, str(Path(__file__).parent))

import readers
from render.epub import NAME
from render.links import broken_links, inventory, site_pages
from render.pandoc import write_atomic
from render.problems import BuildError
from render.serve import serve
from render.site import build, put_in_place


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    root = Path(args.root).resolve()
    output = Path(args.output).resolve() if args.output else root / "_book"
    renderer = args.renderer or ("quarto" if shutil.which("quarto") and not args.epub else "embedded")
    try:
        if args.epub and renderer == "quarto":
            raise BuildError(["--epub: the embedded renderer makes it; leave --renderer quarto out"])
        _refuse_output(root, output)
        _refuse_inventory(args.inventory, output)
        if args.serve:
            return serve(root, output, args.port, lambda: _build(renderer, root, output, args.epub))
        _build(renderer, root, output, args.epub)
        if args.check_links:
            _check_links(output)
        if args.inventory is not None:
            text = json.dumps(inventory(site_pages(output)), indent=1, ensure_ascii=False) + "\n"
            if args.inventory == "-":
                print(text, end="")
            else:
                write_atomic(Path(args.inventory), text.encode())
    except BuildError as error:
        print(_report(error), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"build: {_place(error, output)}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbuild: interrupted", file=sys.stderr)
        return 130
    return 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/build.py", description="Build the book's site.")
    parser.add_argument("--renderer", choices=["embedded", "quarto"], help="default: quarto if it is on PATH")
    parser.add_argument("--root", default=str(Path(__file__).parents[1]), help="folder of _quarto.yml")
    parser.add_argument("--output", help="the site's folder (default: _book in the root)")
    parser.add_argument("--serve", action="store_true", help="serve the site and rebuild on change")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--inventory", nargs="?", const="-", metavar="FILE", help="JSON of the built pages")
    parser.add_argument("--epub", action="store_true", help="add the book as an EPUB to the site")
    parser.add_argument("--check-links", action="store_true", help="check every link of the built site")
    return parser.parse_args(arguments)


def _refuse_output(root: Path, output: Path) -> None:
    """The output folder is replaced as a whole, so it must be one that a build made, or none."""
    if root == output or output in root.parents:
        raise BuildError([f"--output: {output} holds the book's sources; name a folder that may be replaced"])
    if output.exists() and not output.is_dir():
        raise BuildError([f"--output: {output} is no folder; name one that may be replaced, or a new one"])
    if output.is_dir() and any(output.iterdir()) and not _made_by_a_build(output / "index.html"):
        raise BuildError(
            [f"--output: {output} has files that no build made; name a new folder, or empty this one first"]
        )


def _refuse_inventory(name: str | None, output: Path) -> None:
    """An inventory is a file in a folder that is there, or that the build is about to make."""
    if name is None or name == "-":
        return
    path = Path(name).resolve()
    if path.is_dir():
        raise BuildError([f"--inventory: {path} is a folder; name a file"])
    if not path.parent.is_dir() and path.parent != output:
        raise BuildError([f"--inventory: {path.parent} is no folder; name a file in one that exists"])


def _place(error: OSError, output: Path) -> Path:
    """What the system could not read or write; the output folder where it was its temporary neighbour."""
    path = Path(error.filename) if isinstance(error.filename, str) else output
    temporary = path.parent == output.parent and path.name.startswith(f".{output.name}-")
    return output if temporary else path


def _made_by_a_build(index: Path) -> bool:
    """Whether the page names this renderer or Quarto as its generator."""
    if not index.is_file():
        return False
    head = index.read_text(encoding="utf-8", errors="replace")[:4000]
    return bool(re.search(r'<meta name="generator" content="(The Model Call|quarto)', head))


def _report(error: BuildError) -> str:
    count = len(error.lines)
    head = f"build: {count} mistake{'s' if count > 1 else ''}; the site was left as it was"
    return "\n".join([head, *(f"  {line}" for line in error.lines)])


def _build(renderer: str, root: Path, output: Path, ebook: bool = False) -> None:
    started = time.perf_counter()
    if renderer == "quarto":
        pages = _quarto(root, output)
    else:
        # Pages are many small objects without cycles, among which a collector finds nothing to collect.
        gc.disable()
        try:
            pages = build(root, output, extra=readers.derive, ebook=ebook, ahead=readers.ahead).pages
        finally:
            gc.enable()
    seconds = time.perf_counter() - started
    name = "Quarto" if renderer == "quarto" else "the embedded renderer"
    print(f"built {pages} pages with {name} in {seconds:.2f} s", file=sys.stderr)
    print(f"{(output / 'index.html').as_uri()}", file=sys.stderr)
    if ebook:
        print(f"{(output / NAME).as_uri()}", file=sys.stderr)


def _quarto(root: Path, output: Path) -> int:
    """Run Quarto. It ends with status 0 on unresolved references and broken links, so its log is read too."""
    if not shutil.which("quarto"):
        raise BuildError(["--renderer quarto: no quarto on PATH"])
    beside = readers.files(root)
    staged = output.with_name(f".{output.name}-quarto")
    shutil.rmtree(staged, ignore_errors=True)
    where = os.path.relpath(staged, root)  # Quarto takes it as relative to the project
    command = ["quarto", "render", str(root), "--to", "html", "--no-execute", "--output-dir", where]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log = re.sub(r"\x1b\[[\d;]*m", "", done.stdout)
    bad = [line.strip() for line in log.splitlines() if re.search(r"\bWARN\b|\[WARNING\]|^ERROR", line)]
    if done.returncode or bad:
        shutil.rmtree(staged, ignore_errors=True)
        raise BuildError(bad or [f"quarto ended with status {done.returncode}: {log.strip()[-400:]}"])
    try:
        pages = site_pages(staged)
        if "index.html" not in pages:
            raise BuildError([f"quarto wrote no index.html into {staged.name}"])
        for name, data in beside.items():
            write_atomic(staged / name, data)
        put_in_place(staged, output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return len(pages)


def _check_links(output: Path) -> None:
    pages = site_pages(output)
    files = {p.relative_to(output).as_posix() for p in output.rglob("*") if p.is_file()}
    wrong = broken_links(pages, files - set(pages))
    if wrong:
        raise BuildError([f"{page}: {what}" for page, _, what in wrong])
    print(f"links: every address of {len(pages)} pages resolves, none loads from elsewhere", file=sys.stderr)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
