"""Count the samples with ``o200k_base`` and record the counts: ``python -m scripts.record_o200k``.

Its ranks are not shipped. tiktoken downloads them, or finds them in ``TIKTOKEN_CACHE_DIR``, and checks their
hash. The page of chapter 3 shows the record, and counts again wherever the ranks are at hand.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import tiktoken

from modelcall.lab.samples import names, sample

TARGET = Path(__file__).resolve().parent.parent / "data" / "records" / "o200k.json"


def main() -> int:
    """Write the record."""
    try:
        encoding = tiktoken.get_encoding("o200k_base")
    except (OSError, ValueError) as error:
        print(f"record_o200k: no ranks of o200k_base, and none to download: {error}", file=sys.stderr)
        return 1
    texts = {name: sample(name) for name in names()}
    made = {
        "what": "tokens of the samples under o200k_base",
        "encoding": "o200k_base",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "tiktoken": version("tiktoken"),
        "samples_sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        "tokens": {name: len(encoding.encode(text)) for name, text in texts.items()},
    }
    temporary = TARGET.with_suffix(".tmp")
    temporary.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    temporary.replace(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
