"""Where the data files are: inside the installed package, or in ``data/`` of a checkout.

A wheel carries them in ``modelcall/data`` (see ``force-include`` in pyproject.toml). An editable
install reads the repository's own ``data/``, so there is one copy to edit.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["data_dir", "data_file"]

_PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Return the folder of the data set ``name``, for example ``"ledger"``.

    Raises:
        FileNotFoundError: neither the package nor a checkout around it has such a folder.

    >>> data_dir("ledger").name
    'ledger'
    """
    for path in _candidates(name):
        if path.is_dir():
            return path
    raise FileNotFoundError(f"data_dir: no data folder {name!r}; looked in {_looked(name)}")


def data_file(name: str) -> Path:
    """Return the data file ``name`` that stands in no folder of its own, for example ``"facts.toml"``.

    Raises:
        FileNotFoundError: neither the package nor a checkout around it has such a file.

    >>> data_file("facts.toml").name
    'facts.toml'
    """
    for path in _candidates(name):
        if path.is_file():
            return path
    raise FileNotFoundError(f"data_file: no data file {name!r}; looked in {_looked(name)}")


def _candidates(name: str) -> list[Path]:
    return [_PACKAGE / "data" / name, _PACKAGE.parent.parent / "data" / name]


def _looked(name: str) -> str:
    return " and ".join(str(path) for path in _candidates(name))
