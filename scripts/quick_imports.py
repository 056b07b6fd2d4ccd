"""Import this before ``nbformat``: it leaves out what costs each command two seconds and serves none.

nbformat imports jsonschema, which tries ``rfc3987_syntax`` for the format of addresses and does without where
there is none. That module builds a grammar when it is imported, and no notebook's schema asks for the format.
"""

from __future__ import annotations

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # "not there", says importlib
