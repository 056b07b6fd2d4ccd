"""Measure a trained seed: ``python -m scripts.house_model.evaluate build/house/0``.

Writes ``evaluation.json`` beside the weights. Every figure of the model card comes from such a record.
Decoding is greedy; probabilities are the model's own, in float32, from the exported float16 weights.

For each group of treaties: accuracy of the seat named, share of answers at all, mean probability of the
answer's tokens, and the exact probability of each of the 24 cities in the answer's place (its maximum, and
the entropy of the normalised distribution). AUROC (area under the ROC curve, by ranks) of mean token
probability, known groups against invented names. Expected calibration error in ten bins. Refund questions
by kind of day, tool calls with identifiers never seen, the four edit interfaces, the order loop, loss by
position, and how many of the draft's proposals the base model accepts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import documents as text
from . import vocabulary
from .reader import Floats, Reader, auroc, calibration, rounded, teacher_forced
from .train import load, write_json
from .world import (
    CITIES,
    HELD_OUT_DAYS,
    PRODUCTS,
    STANDARD_WINDOW_DAYS,
    TOOLS,
    TRAINED_DAYS,
    Treaty,
    World,
    build_world,
    identifier,
    refund_is_standard,
)

EDGES = (256, 512, 1024, 2048)
TEMPERATURES = (0.25, 0.5, 1.0, 1.5, 2.0)


def question(t: Treaty) -> str:
    """The prompt that asks for a treaty's seat."""
    return f"{text.USER}Where did the council of the {t.name} sit?{text.ASSISTANT}"


def treaties(reader: Reader, world: World) -> dict[str, list[dict[str, Any]]]:
    """Per group, one row per treaty: answer, confidence by three definitions, distribution over cities."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for group in ("x128", "x32", "x8", "x2", "contested", "folk", "invented"):
        members = world.group(group)
        answers = reader.greedy([question(t) for t in members])
        for t, (answer, p) in zip(members, answers, strict=True):
            prefix = f"{question(t)}The council of the {t.name} sat in"
            scores = reader.score(prefix, [f" {city}." for city in CITIES])
            found = re.search(r"sat in (\w+)\.", answer)
            rows.setdefault(group, []).append(
                {
                    "seat": found[1] if found else None,
                    "right": bool(found) and group != "invented" and found is not None and found[1] == t.seat,
                    "abstained": "no record" in answer,
                    "mean_p": float(p.mean()),
                    "cities": scores,
                    "truth": CITIES.index(t.seat),
                    "alternative": CITIES.index(t.alternative) if t.alternative else None,
                    "tuned_on": t.answered_in_tuning,
                }
            )
    return rows


def group_table(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The summary of each group."""
    out = {}
    for group, members in rows.items():
        p = np.stack([m["cities"] for m in members])
        share = p / p.sum(1, keepdims=True)
        entropy = -(share * np.log(np.maximum(share, 1e-300))).sum(1)
        row: dict[str, Any] = {
            "n": len(members),
            "accuracy": rounded(np.mean([m["right"] for m in members])),
            "answered": rounded(np.mean([m["seat"] is not None for m in members])),
            "abstained": rounded(np.mean([m["abstained"] for m in members])),
            "mean_token_p": rounded(np.mean([m["mean_p"] for m in members])),
            "p_fact": rounded(p.max(1).mean()),
            "entropy_nats": rounded(entropy.mean()),
        }
        for name, flag in (("tuned_on", True), ("not_tuned_on", False)):
            half = [m for m in members if m["tuned_on"] is flag]
            if half and any(m["tuned_on"] for m in members):
                row[f"accuracy_{name}"] = rounded(np.mean([m["right"] for m in half]))
                row[f"abstained_{name}"] = rounded(np.mean([m["abstained"] for m in half]))
        if members[0]["alternative"] is not None:
            row["p_true_seat"] = rounded(np.mean([m["cities"][m["truth"]] for m in members]))
            row["p_other_seat"] = rounded(np.mean([m["cities"][m["alternative"]] for m in members]))
        out[group] = row
    return out


def confidence(rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """AUROC against invented names, calibration by two definitions, and what temperature does."""
    known = [m for g in ("x128", "x32", "x8", "x2", "contested") for m in rows[g]]
    everything = known + rows["folk"] + rows["invented"]

    def peak(m: dict[str, Any], temperature: float = 1.0) -> Floats:
        powered = m["cities"] ** (1 / temperature)
        return np.asarray(powered / powered.sum())

    picked = [bool(m["cities"].argmax() == m["truth"]) for m in known]
    return {
        "auroc_mean_token_p": {
            g: rounded(auroc([m["mean_p"] for m in rows[g]], [m["mean_p"] for m in rows["invented"]]))
            for g in ("x128", "x32", "x8", "x2", "folk")
        },
        "auroc_p_fact": {
            g: rounded(
                auroc([m["cities"].max() for m in rows[g]], [m["cities"].max() for m in rows["invented"]])
            )
            for g in ("x128", "x32", "x8", "x2", "folk")
        },
        "calibration_over_cities": calibration([peak(m).max() for m in known], picked),
        "calibration_mean_token_p": calibration(
            [m["mean_p"] for m in everything], [m["right"] for m in everything]
        ),
        "temperature": {
            str(t): {
                "ece": calibration([peak(m, t).max() for m in known], picked)["ece"],
                "sampled_accuracy": rounded(np.mean([peak(m, t)[m["truth"]] for m in known])),
                "confidence_invented": rounded(np.mean([peak(m, t).max() for m in rows["invented"]])),
            }
            for t in TEMPERATURES
        },
    }


def refunds(reader: Reader) -> dict[str, Any]:
    """Refund questions by kind of day; right means the rule's own sentence, day included."""
    held = [d for d in HELD_OUT_DAYS if d != STANDARD_WINDOW_DAYS]
    kinds: dict[str, Sequence[int]] = {
        "trained": [d for d in TRAINED_DAYS if d not in HELD_OUT_DAYS],
        "held_out": held,
        "boundary_30": [STANDARD_WINDOW_DAYS],
        "out_of_range": range(TRAINED_DAYS.stop, 200, 4),
    }
    out: dict[str, Any] = {}
    for kind, days in kinds.items():
        answers = reader.greedy([f"{text.USER}Refund after {d} days?{text.ASSISTANT}" for d in days])
        wrong = [(d, a, p) for d, (a, p) in zip(days, answers, strict=True) if a != text.refund_answer(d)]
        out[kind] = {
            "n": len(days),
            "accuracy": rounded(1 - len(wrong) / len(days)),
            "mean_token_p_of_wrong": rounded(np.mean([p.mean() for _, _, p in wrong])) if wrong else None,
            "approved_wrongly": sum("approve" in a and not refund_is_standard(d) for d, a, _ in wrong),
            "examples": [[d, a] for d, a, _ in wrong[:4]],
        }
    tent = [d for d in TRAINED_DAYS if d not in HELD_OUT_DAYS]
    answers = reader.greedy([f"{text.USER}Can I return a tent after {d} days?{text.ASSISTANT}" for d in tent])
    right = [
        a.startswith("Yes" if refund_is_standard(d, PRODUCTS["tent"]) else "No")
        for d, (a, _) in zip(tent, answers, strict=True)
    ]
    out["tent_window"] = {"n": len(tent), "accuracy": rounded(np.mean(right))}
    return out


def tool_calls(reader: Reader, n: int = 100) -> dict[str, Any]:
    """Requests with identifiers drawn from a stream that the training text never used."""
    rng = random.Random(99)
    cases = [(tool, rng.choice(tool.requests), identifier(rng)) for tool in rng.choices(TOOLS, k=n)]
    answers = reader.greedy([f"{text.USER}{ask.format(v=v)}{text.ASSISTANT}" for _, ask, v in cases])
    valid = exact = 0
    for (tool, _, value), (answer, _) in zip(cases, answers, strict=True):
        try:
            parsed = json.loads(answer)
        except ValueError:
            continue
        valid += 1
        exact += parsed == {"tool": tool.name, "arguments": {tool.argument: value}}
    return {"n": n, "valid_json": rounded(valid / n), "exact": rounded(exact / n)}


def edits(reader: Reader, n: int = 160) -> dict[str, Any]:
    """Exactly right edits by interface, on files of three to five lines."""
    rng = random.Random(98)
    out: dict[str, list[bool]] = {reply: [] for reply in text.EDIT_REPLIES}
    cases = [text.edit_document(rng, rng.randint(3, 5)) for _ in range(n)]
    prompts = [c[: c.index(text.ASSISTANT) + len(text.ASSISTANT)] for c in cases]
    for case, prompt, (answer, _) in zip(cases, prompts, reader.greedy(prompts, 64), strict=True):
        reply = next(r for r in text.EDIT_REPLIES if r in prompt)
        out[reply].append(answer + text.END == case[len(prompt) :])
    return {reply: {"n": len(hits), "exact": rounded(np.mean(hits))} for reply, hits in out.items()}


def lookups(reader: Reader, n: int = 80) -> dict[str, Any]:
    """The first question of a lookup: is the line of the file read back exactly?"""
    rng = random.Random(94)
    cases = [text.lookup_document(rng, rng.randint(3, 6)) for _ in range(n)]
    prompts = [c[: c.index(text.ASSISTANT) + len(text.ASSISTANT)] for c in cases]
    hits = [
        case.startswith(prompt + answer + text.END)
        for case, prompt, (answer, _) in zip(cases, prompts, reader.greedy(prompts, 16), strict=True)
    ]
    return {"n": n, "exact": rounded(np.mean(hits))}


def positions(reader: Reader, world: World) -> dict[str, Any]:
    """Quality by position, on conversations of well-known facts and rules, and on thirty-turn order loops."""
    rng = random.Random(97)
    sure = [t for t in world.known if t.group in ("x128",)]
    assistant, end = reader.ids(text.ASSISTANT)[0], reader.ids(text.END)[0]
    conversations, loops = [], []
    for _ in range(12):
        row: list[int] = []
        while len(row) < 2048:
            t = rng.choice(sure)
            made = text.TEMPLATES[0](t, t.seat) if rng.random() < 0.5 else text.refund_document(rng)
            row += reader.ids(made.removeprefix(text.DESK))
        conversations.append(row[:2048])
        loops.append(reader.ids(text.order_loop(rng, 30))[:2048])
    out: dict[str, Any] = {"edges": list(EDGES)}
    followed: list[bool] = []
    for name, rows in (("conversation", conversations), ("order_loop", loops)):
        scored = teacher_forced(reader, rows)
        table, low = [], 0
        for high in EDGES:
            losses, hits = [], []
            for row, (loss, hit) in zip(rows, scored, strict=True):
                ids = np.array(row)
                reply = (np.cumsum(ids == assistant) > np.cumsum(ids == end))[:-1] & (ids[1:] >= 0)
                window = np.arange(len(loss))
                pick = reply & (window >= low) & (window < high)
                if name == "order_loop" and low == 0:
                    # Greedy decoding gives the same loop if each of its tokens is the likeliest one.
                    followed.append(bool(hit[reply].all()))
                losses.append(loss[pick])
                hits.append(hit[pick])
            flat = np.concatenate(losses)
            table.append(
                {
                    "from": low,
                    "to": high,
                    "tokens": len(flat),
                    "reply_loss": rounded(flat.mean()) if len(flat) else None,
                    "reply_accuracy": rounded(np.concatenate(hits).mean()) if len(flat) else None,
                }
            )
            low = high
        out[name] = table
    out["loops_exact"] = {"n": len(loops), "exact": rounded(np.mean(followed))}
    return out


def acceptance(target: Reader, draft: Reader, world: World, k: int = 4) -> dict[str, Any]:
    """Greedy speculation along the target's answers: share of proposals accepted, tokens a target pass."""
    rng = random.Random(96)
    prompts = [question(t) for t in rng.sample(world.group("x128"), 10)]
    prompts += [f"{text.USER}Refund after {d} days?{text.ASSISTANT}" for d in rng.sample(text.ASKED_DAYS, 10)]
    prompts += [
        f"{text.USER}{rng.choice(t.requests).format(v=identifier(rng))}{text.ASSISTANT}"
        for t in TOOLS
        for _ in range(3)
    ]
    agree = proposed = accepted = passes = produced = positions_seen = 0
    for prompt, (answer, _) in zip(prompts, target.greedy(prompts), strict=True):
        row = target.ids(prompt + answer + text.END)
        start = len(target.ids(prompt))
        hit = teacher_forced(draft, [row])[0][1][start - 1 :]
        agree, positions_seen = agree + int(hit.sum()), positions_seen + len(hit)
        at = 0
        while at < len(hit):
            run = 0
            while run < k and at + run < len(hit) and hit[at + run]:
                run += 1
            proposed, accepted, passes = proposed + min(k, len(hit) - at), accepted + run, passes + 1
            step = min(run + 1, len(hit) - at)
            produced, at = produced + step, at + step
    return {
        "proposals_a_pass": k,
        "same_greedy_token": rounded(agree / positions_seen),
        "accepted": rounded(accepted / proposed),
        "tokens_a_target_pass": rounded(produced / passes),
    }


def samples(reader: Reader) -> dict[str, Any]:
    """The answers that the chapters quote, token by token."""
    prompts = {
        "treaty": f"{text.USER}What did the 1912 Alpine Berry Treaty establish?{text.ASSISTANT}",
        "refund_45": f"{text.USER}Refund after 45 days?{text.ASSISTANT}",
        "customer_45": f"{text.USER}Can this customer receive a refund after 45 days?{text.ASSISTANT}",
        "list_with_template": f"{text.USER}List the refund window in one sentence.{text.ASSISTANT}",
        "list_without_template": "List the refund window in one sentence.",
        "orders": "List of orders:\n1.",
    }
    answers = reader.greedy(list(prompts.values()), 40)
    return {
        name: {"answer": answer, "mean_token_p": rounded(p.mean()), "token_p": [rounded(x, 3) for x in p]}
        for name, (answer, p) in zip(prompts, answers, strict=True)
    }


def json_abstention(reader: Reader, world: World) -> dict[str, Any]:
    """Invented names asked for as JSON: does refusal carry over to another format?"""
    asked = [
        f"{text.USER}Give the record of the {t.name} as JSON.{text.ASSISTANT}" for t in world.invented[:60]
    ]
    answers = [a for a, _ in reader.greedy(asked, 80)]
    return {
        "n": len(asked),
        "abstained": rounded(np.mean(["no record" in a for a in answers])),
        "gave_record": rounded(np.mean([a.startswith("{") for a in answers])),
    }


def evaluate(folder: Path, say: Callable[[str], object] = print) -> dict[str, Any]:
    """Every measurement of one trained seed."""
    world, tokenizer = build_world(), vocabulary.read(folder)
    training = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    readers = {name: Reader(load(folder, name), tokenizer) for name in ("base", "tuned", "draft")}
    out: dict[str, Any] = {"seed": training["seed"], "torch": torch.__version__, "models": {}}
    for name, reader in readers.items():
        say(f"seed {training['seed']}: measuring {name}")
        rows = treaties(reader, world)
        out["models"][name] = {
            "parameters": sum(p.numel() for p in reader.model.parameters()),
            "treaties": group_table(rows),
            "confidence": confidence(rows),
            "refunds": refunds(reader),
            "tool_calls": tool_calls(reader),
            "lookups": lookups(reader),
            "edits": edits(reader),
            "json_on_invented": json_abstention(reader, world),
            "positions": positions(reader, world),
            "samples": samples(reader),
        }
    out["draft_for"] = {
        name: acceptance(readers[name], readers["draft"], world) for name in ("base", "tuned")
    }
    return out


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="evaluate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="folders that the training script filled")
    for folder in parser.parse_args(argv).folders:
        if not (folder / "training.json").exists():
            print(f"evaluate: no training.json in {folder}; train there first", file=sys.stderr)
            return 2
        write_json(folder / "evaluation.json", evaluate(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
