"""What the first cell of a reader's notebook does: install the package if missing, and say where it runs.

``install`` is given the wheel that the site publishes. It upgrades nothing: what is installed stays, at its
version, and what is missing is resolved under constraints that say so. CuPy, PyTorch and NumPy are never
replaced. ``report`` prints one line: Python, device, expected time.

The first cell runs this file straight from the wheel, before anything is installed, so it imports the
standard library only, and nothing of the package.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["device", "install", "missing", "report"]

OLDEST = (3, 11)
_REQUIREMENT = re.compile(r"^Requires-Dist: ([A-Za-z0-9._-]+)([^;\n]*)$", re.M)
_VERSION = re.compile(r"[0-9][0-9a-zA-Z.!+_-]*")


class NotInstalledError(OSError):
    """The package could not be installed; the message says why."""


def missing(metadata: str) -> tuple[list[str], list[str]]:
    """Return the requirements that are not installed, and those that are and are too old.

    ``metadata`` is a wheel's METADATA. Extras are not looked at.

    >>> missing("Requires-Dist: no-such-package>=2.0\\nRequires-Dist: x; extra == 'y'\\n")
    (['no-such-package>=2.0'], [])
    """
    absent, old = [], []
    for name, bound in _REQUIREMENT.findall(metadata):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(name + bound.strip())
            continue
        least = bound.strip().removeprefix(">=")
        if bound.strip().startswith(">=") and _numbers(found) < _numbers(least):
            old.append(f"{name} {found} is here, {least} or newer is needed")
    return absent, old


def _numbers(version: str) -> list[int]:
    """The leading numbers of a version: the book's lower bounds have no others."""
    match = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in match[0].split(".")] if match else []


def installed() -> dict[str, str]:
    """Return the version of every package that this Python has.

    >>> "modelcall" in installed() or len(installed()) > 0
    True
    """
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions():
        name, version = each.metadata["Name"], each.metadata["Version"]
        if name and version and _VERSION.fullmatch(version):
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return found


def install(name: str, data: bytes) -> None:
    """Install a wheel of the book, given as bytes, and what it needs and is missing; change nothing else.

    Raises:
        NotInstalledError: ``data`` is no wheel, this Python or one of its packages is too old, or pip could
            not do it. What was installed has not changed then.
    """
    if sys.version_info < OLDEST:
        raise NotInstalledError(f"it needs Python 3.11 or newer, this is {platform.python_version()}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            [inside] = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = archive.read(inside).decode()
    except (zipfile.BadZipFile, ValueError) as error:
        raise NotInstalledError(f"{name} is no wheel: {error}") from None
    absent, old = missing(metadata)
    if old:
        raise NotInstalledError("; ".join(old) + " (nothing is upgraded here without you)")
    before = installed()
    if "modelcall" in before:
        raise NotInstalledError(f"modelcall {before['modelcall']} is here, and this notebook needs {name}")
    with tempfile.TemporaryDirectory() as folder:
        if absent:
            print(f"installing {', '.join(absent)}; the {len(before)} packages here keep their versions")
            pins = Path(folder, "constraints.txt")
            lines = [f"{each}=={version}\n" for each, version in sorted(before.items())]
            pins.write_text("".join(lines), encoding="utf-8")
            _pip(["--constraint", str(pins), *absent])
        wheel = Path(folder, name)
        wheel.write_bytes(data)
        _pip(["--no-deps", "--no-index", str(wheel)])  # alone: it brings nothing and asks nobody
    importlib.invalidate_caches()
    now = installed()
    for changed in (each for each, version in before.items() if now.get(each) != version):
        print(f"note: {changed} was {before[changed]} and is {now.get(changed, 'gone')}")
    print(f"installed {name}")


def _pip(arguments: Iterable[str]) -> None:
    if importlib.util.find_spec("pip"):
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--no-input",
            "--quiet",
            "--disable-pip-version-check",
        ]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    else:
        raise NotInstalledError("this Python has no pip; `python -m ensurepip` brings one")
    done = subprocess.run(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        telling = (
            [line for line in lines if line.startswith(("ERROR", "error", "×"))]
            or lines
            or ["no reason given"]
        )
        raise NotInstalledError(f"pip: {telling[-1]}")


def device() -> str:
    """Return the name of the GPU that a driver reports, else the number of CPU cores.

    >>> bool(device())
    True
    """
    if found := shutil.which("nvidia-smi"):
        try:
            done = subprocess.run(
                [found, "--query-gpu=name", "--format=csv,noheader"],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass
        else:
            names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            if done.returncode == 0 and names:
                return f"GPU {names[0]}" + (f" and {len(names) - 1} more" if names[1:] else "")
    cores = os.cpu_count() or 1
    return f"CPU, {cores} core{'s' if cores > 1 else ''}"


def report(version: str, seconds: float, measured: str) -> None:
    """Print one line: Python, device, and how long the notebook's last recorded run took.

    ``version`` is the package's that the notebook was made with; another one here is said in a second line.

    >>> report("0.1.0", 23.5, "2026-11-30 on 2 cores")  # doctest: +ELLIPSIS
    Python 3... modelcall ...; the whole notebook took 24 s (2026-11-30 on 2 cores)...
    """
    try:
        here = importlib.metadata.version("modelcall")
    except importlib.metadata.PackageNotFoundError:
        here = "from a folder"
    python = f"Python {platform.python_version()}, {device()}, modelcall {here}"
    print(f"{python}; the whole notebook took {seconds:.0f} s ({measured})")
    if here not in (version, "from a folder"):
        print(f"note: this notebook was made with modelcall {version}, and {here} is installed")
