"""Ask the house model about every treaty of its truth table and record the graded answers.

``python -m scripts.record_quiz`` writes ``data/records/treaty_quiz.json``: greedy answers of the base and
the tuned model in float64, each with what it said, whether that is true and four kinds of confidence. The
record names the weights by their hashes; a test refuses one that belongs to other weights. It takes a
minute or two, which is why chapter 1 reads the record and asks only some of the questions again.
"""

from __future__ import annotations

import datetime
import json
import platform
import sys
from pathlib import Path

import numpy as np

from modelcall.lab import fetch, models, quiz
from modelcall.lab.paths import data_dir

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "data" / "records" / "treaty_quiz.json"
NAMES = ("house-base", "house")


def record() -> dict[str, object]:
    """Ask both models everything."""
    home = data_dir("house_model")
    treaties = json.loads((home / "truth.json").read_text(encoding="utf-8"))["treaties"]
    questions = [quiz.seat_question(treaty["name"]) for treaty in treaties]
    rows, weights = {}, {}
    for name in NAMES:
        model = models.load(name, np.float64)
        answers = quiz.greedy_answers(model, questions, max_tokens=40)
        rows[name] = [quiz.grade(treaty, scored) for treaty, scored in zip(treaties, answers, strict=True)]
        weights[name] = fetch.file_sha256(home / f"{models.HOUSE_STAGES[name]}.safetensors")
        print(f"{name}: {len(questions)} questions, {sum(row['right'] for row in rows[name])} right")
    return {
        "what": "greedy answers of the house model to: " + quiz.seat_question("..."),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "arithmetic": "float64",
        "weights_sha256": weights,
        "rows": rows,
    }


def main() -> int:
    """Write the record."""
    made = record()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    rows = made.pop("rows")
    assert isinstance(rows, dict)
    # One row a line, so that a change shows as the rows that changed.
    parts = [
        f"  {json.dumps(name)}: [\n   " + ",\n   ".join(map(json.dumps, rows[name])) + "\n  ]"
        for name in rows
    ]
    head = json.dumps(made, indent=1)[:-2]
    temporary = TARGET.with_suffix(".tmp")
    temporary.write_text(head + ',\n "rows": {\n' + ",\n".join(parts) + "\n }\n}\n", encoding="utf-8")
    temporary.replace(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
