"""Whether a statement in words and the value recorded beside it say the same number.

Nothing that is recomputed can tell what a source printed. The number therefore stands twice in an entry,
in the sentence that readers see and in ``stated``, and the two must agree.
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["missing_numbers"]

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e\d+)?")
_WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
]


def missing_numbers(statement: str, stated: Any) -> list[float | int]:
    """Return the stated numbers that a statement does not contain, in digits or as a word up to twelve.

    Only one number, or a flat list of numbers, is looked for; anything else has nothing missing.

    >>> missing_numbers("Seven words are 20 tokens.", 20), missing_numbers("1,024 of two.", [1024, 2, 3])
    ([], [3])
    """
    numbers = stated if isinstance(stated, list) else [stated]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        return []
    found = [float(match.group().replace(",", "")) for match in _NUMBER.finditer(statement)]
    found += [
        float(_WORDS.index(word)) for word in re.findall(r"[a-z]+", statement.lower()) if word in _WORDS
    ]
    return [number for number in numbers if not any(math.isclose(number, other) for other in found)]
