"""The wheel that the site publishes, and the first cell of a reader's notebook, which finds or installs it.

The wheel is built from the checkout by the build backend itself, once for each state of its sources; the same
sources give the same bytes. The cell carries its SHA-256, so nothing but that wheel is ever run or installed.
"""

from __future__ import annotations

import hashlib
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any

from render.pandoc import write_atomic
from render.problems import BuildError

__all__ = ["FOLDER", "Wheel", "first_cell", "kept", "wheel"]

FOLDER = "wheels"

_CELL = Template('''\
# Finds the book's package, or installs the wheel published with this notebook. It upgrades nothing.
try:
    from modelcall.lab import notebook
except ImportError:
    import hashlib, io, pathlib, urllib.request, zipfile
    name = "$name"
    sha256 = "$sha256"
    here = pathlib.Path.cwd()
    places = [here / name, *(folder / "$folder" / name for folder in (here, *here.parents))]
    wheel = next((place for place in places if place.is_file()), here / name)
    try:
        data = $read
        if hashlib.sha256(data).hexdigest() != sha256:
            raise OSError(f"{wheel} is not the wheel of this notebook")
        code = zipfile.ZipFile(io.BytesIO(data)).read("modelcall/lab/notebook.py")
        exec(code, space := {"__name__": "setup"})
        space["install"](name, data)
    except OSError as error:
        stop = RuntimeError(f"""modelcall is not here and was not installed: {error}
  with the wheel, in this Python:  $command
  or in a checkout of the book:    make lab""")
        stop._render_traceback_ = lambda: [str(stop)]
        raise stop from None
    from modelcall.lab import notebook
notebook.report("$version", $seconds, "$measured")''')


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package as it is published."""

    name: str
    data: bytes
    version: str

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def wheel(root: Path, cache: Path) -> Wheel | None:
    """Build the package at ``root``, or take it from ``cache``; None if there is no package.

    Raises:
        BuildError: the build backend refuses its sources.
    """
    settings = _settings(root)
    if settings is None:
        return None
    name, version = f"modelcall-{settings.version}-py3-none-any.whl", settings.version
    path = _kept_at(root, cache, settings)
    if not path.is_file():
        write_atomic(path, _built(root))
    return Wheel(name, path.read_bytes(), version)


def kept(root: Path, cache: Path) -> bool:
    """Whether ``wheel`` has nothing to build."""
    settings = _settings(root)
    return settings is None or _kept_at(root, cache, settings).is_file()


@dataclass(frozen=True)
class _Settings:
    version: str
    folders: list[str]


def _settings(root: Path) -> _Settings | None:
    if not (root / "pyproject.toml").is_file():
        return None
    try:
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        target = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
        folders = [*target["packages"], *target.get("force-include", {})]
        return _Settings(str(settings["project"]["version"]), folders)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError) as error:
        raise BuildError([f"pyproject.toml: no wheel can be built from it: {error}"]) from error


def _kept_at(root: Path, cache: Path, settings: _Settings) -> Path:
    return cache / "wheel" / f"{_state(root, settings.folders)}.whl"


def _state(root: Path, folders: list[str]) -> str:
    """A hash of everything that goes into the wheel."""
    digest = hashlib.sha256(str(_backend()).encode())
    files = [root / name for name in ("pyproject.toml", "README.md", "LICENSE")]
    for folder in folders:
        found = [root / folder, *(root / folder).rglob("*")]  # an entry may be one file
        files += sorted(p for p in found if p.is_file() and p.suffix != ".pyc")
    for path in files:
        digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:40]


def _backend() -> str:
    from importlib.metadata import version

    return version("hatchling")


def _built(root: Path) -> bytes:
    from hatchling.builders.wheel import WheelBuilder

    with tempfile.TemporaryDirectory() as folder:
        try:
            # Hatchling fixes times and modes, so that the same sources give the same bytes.
            made = list(WheelBuilder(str(root)).build(directory=folder, versions=["standard"]))
        except (ValueError, TypeError, OSError) as error:
            raise BuildError([f"pyproject.toml: the wheel cannot be built: {error}"]) from error
        return Path(made[0]).read_bytes()


def first_cell(wheel: Wheel, site_url: str, last_run: dict[str, Any]) -> str:
    """The source of the first cell of a notebook that was last run as ``last_run`` says."""
    address = f"{site_url}{FOLDER}/{wheel.name}" if site_url else ""
    target = f"{address}#sha256={wheel.sha256}" if address else wheel.name
    read = "wheel.read_bytes()"
    if address:
        read += f' if wheel.is_file() else urllib.request.urlopen("{address}", timeout=60).read()'
    return _CELL.substitute(
        name=wheel.name,
        read=read,
        sha256=wheel.sha256,
        folder=FOLDER,
        command=f"python -m pip install {target}",
        version=wheel.version,
        seconds=last_run["seconds"],
        measured=f"{last_run['date']} on {last_run['machine']}",
    )
