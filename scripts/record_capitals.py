"""Ask SmolLM2 for capitals of countries real and invented, and record what it says.

``modelcall fetch smollm2`` first; then ``python -m scripts.record_capitals`` writes
``data/records/capitals.json``: greedy answers in float32 with their mean token probability. The page of
chapter 1 shows the record, so that a reader without the model sees what it said, when, and with what.
"""

from __future__ import annotations

import datetime
import json
import math
import platform
import sys
from pathlib import Path

import numpy as np

from modelcall.lab import fetch, models, quiz
from modelcall.lab.model_errors import FetchError

TARGET = Path(__file__).resolve().parent.parent / "data" / "records" / "capitals.json"
CAPITALS = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Peru": "Lima",
    "Turkey": "Ankara",
    "Togo": "Lomé",
    "the United States": "Washington",
    "Velmaria": None,
    "Ostrund": None,
    "Keldavia": None,
}


def main() -> int:
    """Write the record."""
    try:
        model = models.load("smollm2", np.float32)
    except FetchError as error:
        print(f"record_capitals: {error}", file=sys.stderr)
        return 2
    questions = [f"What is the capital of {country}?" for country in CAPITALS]
    rows = []
    for (country, capital), question in zip(CAPITALS.items(), questions, strict=True):
        [scored] = quiz.greedy_answers(model, [question], max_tokens=24)
        answer = "".join(token for token, _ in scored).strip()
        mean = math.fsum(math.exp(logprob) for _, logprob in scored) / len(scored)
        right = None if capital is None else int(capital in answer)
        rows.append({"country": country, "answer": answer, "right": right, "mean": round(mean, 3)})
        print(rows[-1])
    made = {
        "what": "greedy answers of SmolLM2-135M-Instruct to: What is the capital of ...?",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "arithmetic": "float32",
        "package": fetch.SMOLLM2.requirement,
        "weights_sha256": fetch.SMOLLM2.sha256,
        "rows": rows,
    }
    temporary = TARGET.with_suffix(".tmp")
    temporary.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
