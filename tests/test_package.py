"""What is installed: the wheel's contents, the locks, and the environments that users are offered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RANKS = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"


def name_of(requirement: str) -> str:
    """The normalised distribution name of a requirement line."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, f"not a requirement: {requirement!r}"
    return re.sub(r"[-_.]+", "-", found.group()).lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def test_wheel_carries_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert f"modelcall/data/tokenizer/{RANKS}" in names
    assert any(re.fullmatch(r"modelcall/data/ledger/.+\.toml", name) for name in names)
    assert "modelcall/py.typed" in names
    top = {name.split("/")[0] for name in names}
    assert top == {"modelcall", f"modelcall-{PROJECT['version']}.dist-info"}


def test_wheel_works_alone(wheel: Path, tmp_path: Path) -> None:
    """From the unpacked wheel, away from the checkout, tiktoken finds the shipped ranks."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import modelcall, tiktoken\n"
        f"assert modelcall.__file__.startswith({str(tmp_path)!r}), modelcall.__file__\n"
        "import os; assert 'modelcall' in os.environ['TIKTOKEN_CACHE_DIR']\n"
        "print(tiktoken.get_encoding('cl100k_base').decode([755, 636, 3398, 851, 4658]))\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "TIKTOKEN_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "def get_user_id():\n"


def test_code_is_no_package() -> None:
    """A package called code would shadow the standard library's and break pdb."""
    assert not (ROOT / "code" / "__init__.py").exists()


@pytest.mark.parametrize("lock, extras", [("book", ["book"]), ("dev", ["book", "dev"])])
def test_locks_pin_everything_that_is_declared(lock: str, extras: list[str]) -> None:
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.lstrip().startswith("#")]
    unpinned = [line for line in pins if "==" not in line]
    assert not unpinned
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    missing = {name_of(line) for line in wanted} - {name_of(line) for line in pins} - {"modelcall"}
    assert not missing


def test_conda_environment_offers_what_the_package_needs() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    offered = {name_of(item) for item in environment["dependencies"] if isinstance(item, str)}
    assert {"jupyter", "quarto", "matplotlib", "numpy", "tiktoken", "ipywidgets", "nbval"} <= offered
    assert {name_of(item) for item in PROJECT["dependencies"]} <= offered
    assert environment["channels"] == ["conda-forge"]


def test_readers_never_install_pytorch_or_two_cupys() -> None:
    extras = PROJECT["optional-dependencies"]
    with_torch = {extra for extra, items in extras.items() if "torch" in map(name_of, items)}
    with_cupy = {extra for extra, items in extras.items() if any("cupy" in item for item in items)}
    assert with_torch == {"train"}
    assert with_cupy == {"gpu12", "gpu13"}
    assert not any("cupy" in item for item in PROJECT["dependencies"])
