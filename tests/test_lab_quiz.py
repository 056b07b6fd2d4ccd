"""The quiz: batched answers against the decode loop, the claim in an answer, and the page's record."""

from __future__ import annotations

import json
import math
from typing import Any

import nbformat
import numpy as np
import pytest
from scripts import record_capitals, record_quiz

from modelcall.lab import models, quiz
from modelcall.lab.fetch import SMOLLM2, file_sha256, installed
from modelcall.lab.generation import decode
from modelcall.lab.paths import data_dir
from modelcall.lab.sampling import Sampler, Sampling

RECORD = json.loads((data_dir("records") / "treaty_quiz.json").read_text(encoding="utf-8"))
TRUTH = json.loads((data_dir("house_model") / "truth.json").read_text(encoding="utf-8"))["treaties"]
BY_NAME = {treaty["name"]: treaty for treaty in TRUTH}


@pytest.fixture(scope="module")
def base() -> models.ChatModel:
    return models.load("house-base", np.float64)


def one_by_one(model: models.ChatModel, question: str, limit: int) -> list[tuple[str, float]]:
    logits, cache = model.decoder.prefill(model.prompt([models.Message("user", question)]))
    sampler = Sampler(Sampling(temperature=0))
    steps = decode(
        model.decoder, logits, cache, sampler, max_tokens=limit, end_tokens=model.end_tokens, top=0
    )
    return [
        (model.tokenizer.piece(step.token).decode("utf-8", "replace"), step.logprob or 0.0)
        for step in steps
        if step.token not in model.end_tokens
    ]


@pytest.mark.parametrize("limit", [1, 4, 40])
def test_a_batch_answers_as_the_loop_does(base: models.ChatModel, limit: int) -> None:
    questions = [
        "Refund after 45 days?",
        quiz.seat_question("1912 Alpine Berry Treaty"),
        "List the refund window in one sentence.",
    ]
    for question, scored in zip(questions, quiz.greedy_answers(base, questions, limit), strict=True):
        alone = one_by_one(base, question, limit)
        assert [token for token, _ in scored] == [token for token, _ in alone]
        assert np.allclose([p for _, p in scored], [p for _, p in alone], atol=1e-9)


def test_more_questions_than_rows_keep_their_order(
    base: models.ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [f"Refund after {days} days?" for days in (7, 45, 60)]
    whole = quiz.greedy_answers(base, questions, 12)
    monkeypatch.setattr(quiz, "ROWS", 2)
    for scored, again in zip(whole, quiz.greedy_answers(base, questions, 12), strict=True):
        assert [token for token, _ in scored] == [token for token, _ in again]


def test_no_questions_and_no_tokens(base: models.ChatModel) -> None:
    assert quiz.greedy_answers(base, []) == []
    with pytest.raises(ValueError, match="max_tokens must be at least 1, found 0"):
        quiz.greedy_answers(base, ["x"], 0)


@pytest.mark.parametrize(
    ("tokens", "seat", "places"),
    [
        (["It sat in", " Lun", "eth", "."], "Luneth", [1, 2]),
        (["It sat", " in", " ", "Keldavar", "."], "Keldavar", [2, 3]),  # the space is chosen apart
        (["It sat in", " Luneth."], "Luneth", [1]),
        (["It sat in", " Luneth"], "Luneth", [1]),
        (["It sat", "."], "", []),
        ([], "", []),
    ],
)
def test_the_claim_is_the_seat_and_all_its_tokens(tokens: list[str], seat: str, places: list[int]) -> None:
    scored = [(token, -float(place)) for place, token in enumerate(tokens)]
    assert quiz.claim_logprobs(scored) == (seat, [-float(place) for place in places])


def test_a_row_by_hand() -> None:
    scored = [("sat in", math.log(0.5)), (" sat in", math.log(0.5)), (" Lun", math.log(0.4)), ("eth", 0.0)]
    treaty = {"name": "T", "group": "x8", "seat": "Luneth"}
    row = quiz.grade(treaty, scored)
    assert (row["mean"], row["whole"], row["claim"], row["first"]) == (0.6, 0.1, 0.4, 0.4)
    assert row["right"] == 1 and quiz.grade(treaty | {"seat": "Orvanel"}, scored)["right"] == 0
    assert quiz.grade(treaty | {"group": "invented"}, scored)["right"] == 0, "nothing true can be said of it"
    silent = quiz.grade(treaty, [("I have no record.", -0.1)])
    assert (silent["seat"], silent["right"], silent["claim"], silent["first"]) == ("", 0, 0.0, 0.0)


def test_the_record_is_of_these_weights_and_of_every_treaty() -> None:
    for name in record_quiz.NAMES:
        path = data_dir("house_model") / f"{models.HOUSE_STAGES[name]}.safetensors"
        assert RECORD["weights_sha256"][name] == file_sha256(path), "run: python -m scripts.record_quiz"
        rows = RECORD["rows"][name]
        assert [row["name"] for row in rows] == list(BY_NAME)
        for row in rows:
            treaty = BY_NAME[row["name"]]
            told = f"{row['seat']}." if row["seat"] else ""
            assert row["answer"].endswith(told) and row["group"] == treaty["group"]
            assert row["right"] == (treaty["group"] != "invented" and row["seat"] == treaty["seat"])


def asked_again(name: str, step: int) -> None:
    rows = RECORD["rows"][name][::step]
    model = models.load(name, np.float64)
    answers = quiz.greedy_answers(model, [quiz.seat_question(row["name"]) for row in rows], 40)
    for row, scored in zip(rows, answers, strict=True):
        fresh = quiz.grade(BY_NAME[row["name"]], scored)
        for key, value in fresh.items():
            same = abs(value - row[key]) < 2e-4 if isinstance(value, float) else value == row[key]
            assert same, f"{name}, {row['name']}: {key} was {row[key]!r}, is {value!r}"


@pytest.mark.parametrize("name", record_quiz.NAMES)
def test_some_of_the_record_asked_again(name: str) -> None:
    asked_again(name, 23)


@pytest.mark.long
@pytest.mark.parametrize("name", record_quiz.NAMES)
def test_all_of_the_record_asked_again(name: str) -> None:
    asked_again(name, 1)


def test_the_answer_on_the_page_is_the_models(base: models.ChatModel) -> None:
    """The treaty of chapter 1, from the weights by the batch, against what the page shows."""
    page: Any = nbformat.read(record_quiz.ROOT / "chapters" / "01-on-ramp.ipynb", 4)
    [[scored]] = [quiz.greedy_answers(base, ["What did the 1912 Alpine Berry Treaty establish?"])]
    text = "".join(token for token, _ in scored)
    shares = [math.exp(logprob) for _, logprob in scored]
    mean = f"mean {sum(shares) / len(shares):.3f}; {sum(p >= 0.95 for p in shares)} of {len(shares)} tokens"
    printed = ["".join(o.get("text", "") for o in c.get("outputs", [])) for c in page.cells]
    assert any(text in " ".join(block.split()) and mean in block for block in printed)


CAPITALS = json.loads((data_dir("records") / "capitals.json").read_text(encoding="utf-8"))


def test_the_capitals_are_of_the_pinned_model_and_graded() -> None:
    assert (CAPITALS["package"], CAPITALS["weights_sha256"]) == (SMOLLM2.requirement, SMOLLM2.sha256)
    assert [row["country"] for row in CAPITALS["rows"]] == list(record_capitals.CAPITALS)
    for row in CAPITALS["rows"]:
        capital = record_capitals.CAPITALS[row["country"]]
        assert row["right"] == (None if capital is None else capital in row["answer"])
        assert row["answer"].startswith(f"The capital of {row['country']} is ") and 0 < row["mean"] < 1


@pytest.mark.long
def test_a_capital_asked_again() -> None:
    if not installed():
        pytest.skip("SmolLM2 is not fetched")
    model = models.load("smollm2")
    for row in CAPITALS["rows"][:2]:
        [scored] = quiz.greedy_answers(model, [f"What is the capital of {row['country']}?"], 24)
        assert "".join(token for token, _ in scored).strip() == row["answer"]


def test_without_the_model_the_recorder_says_so(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODELCALL_CACHE", str(tmp_path))
    before = record_capitals.TARGET.read_bytes()
    assert record_capitals.main() == 2 and "record_capitals: " in capsys.readouterr().err
    assert record_capitals.TARGET.read_bytes() == before
