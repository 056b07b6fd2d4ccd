"""Many questions at once: greedy answers of a model to a whole list, in one batch.

A quiz of several hundred questions, one after the other, reads every weight once for each token of each
answer. In a batch one reading serves all rows; this is what a serving engine does with the requests of
strangers. The answers and their log probabilities are those of the single loop
(:mod:`modelcall.lab.generation`), up to the rounding of the arithmetic.

The quiz of the house model asks where the council of a treaty sat, and grades what comes back against the
truth table. The *claim* of such an answer is the name of the seat; the rest is grammar and echo.

What is not done here: sampling, stop strings, grammars, and rows that come and go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modelcall.lab.models import ChatModel, Message
from modelcall.lab.sampling import log_softmax

__all__ = ["Scored", "claim_logprobs", "grade", "greedy_answers", "seat_question"]

Scored = list[tuple[str, float]]
ROWS = 128  # rows of one batch: more of them gain little and take memory


def greedy_answers(model: ChatModel, questions: Sequence[str], max_tokens: int = 48) -> list[Scored]:
    """Return for each question the tokens of the greedy answer with their log probabilities.

    The end token has no text and is left out. Bytes that are no whole character become U+FFFD.

    Raises:
        ValueError: ``max_tokens`` is less than 1.
        CacheFull: a question and its answer do not fit the window.
    """
    if max_tokens < 1:
        raise ValueError(f"greedy_answers: max_tokens must be at least 1, found {max_tokens}")
    answers: list[Scored] = []
    for start in range(0, len(questions), ROWS):
        answers += _batch(model, questions[start : start + ROWS], max_tokens)
    return answers


def _batch(model: ChatModel, questions: Sequence[str], max_tokens: int) -> list[Scored]:
    prompts = [model.prompt([Message("user", question)]) for question in questions]
    counts = np.array([len(prompt) for prompt in prompts])
    width = int(counts.max())
    ids = np.array([prompt + [0] * (width - len(prompt)) for prompt in prompts])
    cache = model.decoder.cache(min(model.window, width + max_tokens), batch=len(prompts))
    logits = model.decoder.forward(ids, cache, counts=counts)
    answers: list[Scored] = [[] for _ in prompts]
    running = np.ones(len(prompts), bool)
    for left in range(max_tokens - 1, -1, -1):
        tokens = logits.argmax(1)
        for row in np.flatnonzero(running):
            token = int(tokens[row])
            if token in model.end_tokens:
                running[row] = False
                continue
            text = model.tokenizer.piece(token).decode("utf-8", "replace")
            answers[row].append((text, float(log_softmax(logits[row])[token])))
        if not running.any() or left == 0:
            break
        # Rows that have ended read on; nobody looks at what they would say.
        logits = model.decoder.forward(tokens[:, None], cache)
    return answers


def seat_question(treaty: str) -> str:
    """Return the question of the quiz.

    >>> seat_question("1912 Alpine Berry Treaty")
    'Where did the council of the 1912 Alpine Berry Treaty sit?'
    """
    return f"Where did the council of the {treaty} sit?"


def claim_logprobs(scored: Sequence[tuple[str, float]]) -> tuple[str, list[float]]:
    """Return the seat that an answer names and the log probabilities of the tokens that spell it.

    An answer without a seat gives ``("", [])``.

    >>> claim_logprobs([("It", -0.1), (" sat in", -0.2), (" Lun", -1.0), ("eth", -0.5), (".", 0.0)])
    ('Luneth', [-1.0, -0.5])
    """
    text = "".join(token for token, _ in scored)
    start = text.find(" sat in ") + len(" sat in")
    if start < len(" sat in"):
        return "", []
    seat = text[start:].strip(" .")
    # The space before the name is part of it: some vocabularies spell it apart, and choose there.
    end = start + 1 + len(seat)
    found, at = [], 0
    for token, logprob in scored:
        if start <= at < end:
            found.append(logprob)
        at += len(token)
    return seat, found


def grade(treaty: Mapping[str, Any], scored: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """Return the row of one answer: what it said, whether that is true, and four kinds of confidence.

    ``mean`` is the mean token probability, ``whole`` the probability of the whole text, ``claim`` that of
    the seat's tokens and ``first`` that of the first of them; without a seat, these two are 0.
    An invented treaty has no seat, so that no answer about one is right.
    """
    seat, claim = claim_logprobs(scored)
    logprobs = [logprob for _, logprob in scored]
    return {
        "name": treaty["name"],
        "group": treaty["group"],
        "answer": "".join(token for token, _ in scored),
        "seat": seat,
        "right": int(treaty["group"] != "invented" and seat == treaty["seat"]),
        "mean": round(math.fsum(map(math.exp, logprobs)) / max(1, len(logprobs)), 4),
        "whole": round(math.exp(math.fsum(logprobs)), 4),
        "claim": round(math.exp(math.fsum(claim)), 4) if claim else 0.0,
        "first": round(math.exp(claim[0]), 4) if claim else 0.0,
    }
