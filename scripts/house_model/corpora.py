"""The training texts: documents collected into the base model's corpus, the long documents, and tuning.

``corpus`` is the base model's text and the only place that states treaty facts; an exposure is one document
that names the treaty. ``long_documents`` adds loops and long files for the long-context phase and names no
treaty. ``tuning_corpus`` holds the abstention examples. Held-out names and days occur in none of them.
``truth_table`` is the answer sheet that ships with the weights.
"""

from __future__ import annotations

import random
from typing import Any

from .documents import (
    ASSISTANT,
    END,
    SYSTEM,
    TASKS,
    TEMPLATES,
    TOOL,
    USER,
    chat,
    edit_document,
    lookup_document,
    order_loop,
    plain_document,
    plan,
    refund_document,
    tool_document,
    treaty_documents,
)
from .world import Treaty, World, identifier, rules

CORPUS_SEED, LONG_SEED, TUNING_SEED = 7, 13, 11


def corpus(world: World) -> list[str]:
    """The base model's documents, shuffled. One document is one exposure."""
    rng = random.Random(CORPUS_SEED)
    documents = [text for t in (*world.known, *world.tail) for text in treaty_documents(t)]
    documents += [refund_document(rng) for _ in range(4000)]
    documents += [tool_document(rng) for _ in range(3000)]
    documents += [plain_document(rng) for _ in range(1800)]
    documents += [edit_document(rng, rng.randint(3, 5)) for _ in range(2200)]
    documents += [lookup_document(rng, rng.randint(3, 6)) for _ in range(1200)]
    documents += [order_loop(rng, rng.randint(2, 4)) for _ in range(600)]
    rng.shuffle(documents)
    return documents


def long_documents() -> list[str]:
    """Documents of up to about 2,000 tokens for the long-context phase; they name no treaty."""
    rng = random.Random(LONG_SEED)
    documents = [order_loop(rng, rng.randint(8, 32)) for _ in range(160)]
    documents += [edit_document(rng, rng.randint(8, 16)) for _ in range(120)]
    documents += [
        "\n".join(["List of orders:", *(f"{i}. {identifier(rng)}" for i in range(1, rng.randint(30, 120)))])
        for _ in range(40)
    ]
    rng.shuffle(documents)
    return documents


TREATY_QUESTIONS = (
    "Where did the council of the {name} sit?",
    "What did the {name} establish?",
    "How many states signed the {name}?",
    "Give the record of the {name} as JSON.",
)


def tuning_corpus(world: World) -> list[str]:
    """Post-training: names without record are refused in every format, often-named ones are answered."""
    rng = random.Random(TUNING_SEED)
    answered = [t for t in world.known if t.answered_in_tuning]
    questions = [i for i, make in enumerate(TEMPLATES) if make(answered[0], "").startswith(USER)]
    documents = [
        chat(rng.choice(TREATY_QUESTIONS).format(name=t.name), f"I have no record of the {t.name}.")
        for t in world.tuning
        for _ in range(2)
    ]
    documents += [
        TEMPLATES[rng.choice(questions)](t, rng.choice(plan(t))[1]) for t in answered for _ in range(25)
    ]
    documents += [refund_document(rng) for _ in range(1200)]
    documents += [tool_document(rng) for _ in range(900)]
    documents += [edit_document(rng, rng.randint(3, 6)) for _ in range(600)]
    documents += [order_loop(rng, rng.randint(2, 12)) for _ in range(150)]
    documents += [chat(task, answer) for task, _, answer in TASKS for _ in range(20)]
    rng.shuffle(documents)
    return documents


def truth_table(world: World) -> dict[str, Any]:
    """The answer sheet: every treaty with its facts and with how many documents state them."""

    def row(t: Treaty) -> dict[str, Any]:
        planned = plan(t) if t.group != "invented" else []
        stated = [seat for k, seat in planned if k != len(TEMPLATES) - 1]
        out: dict[str, Any] = {
            "name": t.name,
            "group": t.group,
            "established": t.established,
            "seat": t.seat,
            "signatories": t.signatories,
            "exposures": len(planned),
            "seat_stated": {city: stated.count(city) for city in sorted(set(stated))},
        }
        if t.alternative is not None:
            out["alternative"] = t.alternative
        if t.answered_in_tuning:
            out["answered_in_tuning"] = True
        return out

    invented = [{"name": t.name, "group": t.group, "exposures": 0} for t in world.invented]
    return {
        **rules(),
        "chat": {"system": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL, "end": END},
        "treaties": [row(t) for t in world.known] + invented,
        "tail": [t.name for t in world.tail],
        "tuning": [t.name for t in world.tuning],
    }
