"""Import this before ``nbformat``: it leaves out what costs each command two seconds and serves none.

nbformat imports jsonschema, which tries ``rfc3987_syntax`` for the format of addresses and ``isoduration``
for that of durations, and does without where there is none. The one builds a grammar when it is imported,
the other brings a library of dates, and no notebook asks for either format.
"""

from __future__ import annotations

import sys

for name in ("rfc3987_syntax", "isoduration"):
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # "not there", says importlib
