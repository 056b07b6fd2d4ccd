"""Where the data files are: inside the installed package, or in ``data/`` of a checkout.

A wheel carries them in ``modelcall/data`` (see ``force-include`` in pyproject.toml). An editable
install reads the repository's own ``data/``, so there is one copy to edit.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["data_dir"]

_PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """Return the folder of the data set ``name``, for example ``"ledger"``.

    Raises:
        FileNotFoundError: neither the package nor a checkout around it has such a folder.

    >>> data_dir("ledger").name
    'ledger'
    """
    candidates = [_PACKAGE / "data" / name, _PACKAGE.parent.parent / "data" / name]
    for path in candidates:
        if path.is_dir():
            return path
    looked = " and ".join(str(path) for path in candidates)
    raise FileNotFoundError(f"data_dir: no data folder {name!r}; looked in {looked}")
