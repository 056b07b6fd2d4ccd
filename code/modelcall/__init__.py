"""The code of *The Model Call*, an executable textbook about one call to a foundation model.

Each chapter is a subpackage, ``modelcall.ch01`` and so on, generated from that chapter's notebook.
``modelcall.lab`` holds what the chapters use and do not teach.

Importing this package lets ``tiktoken.get_encoding("cl100k_base")`` work without a network in this
process: it points ``TIKTOKEN_CACHE_DIR`` at the ranks that travel with the package, unless the
variable is already set. It does nothing else.
"""

from __future__ import annotations

import os as _os

from modelcall.lab.paths import data_dir as _data_dir

__all__ = ["__version__"]
__version__ = "0.1.0"

_os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(_data_dir("tokenizer")))
