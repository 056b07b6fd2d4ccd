"""Publish trained seeds: ``python -m scripts.house_model.card build/house/0 build/house/1 build/house/2``.

Copies the first folder's weights and tokenizer and every folder's records to ``data/house_model``, then
writes the model card there. The card is a function of those files alone: no figure in it is typed. Without
folders it rewrites the card from what is already published. Needs neither PyTorch nor ``tokenizers``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2] / "data" / "house_model"
SHIPPED = (
    "base.safetensors",
    "tuned.safetensors",
    "draft.safetensors",
    "config.json",
    "house.tiktoken",
    "tokenizer.json",
    "token_ids.json",
    "truth.json",
    "reference.npz",
)
MODELS = ("base", "tuned", "draft")
GROUPS = ("x128", "x32", "x8", "x2", "contested", "folk", "invented")
Record = dict[str, Any]


def spread(values: Sequence[float | None], digits: int = 2) -> str:
    """``mean (min to max)`` over the seeds, or one number when they agree at this precision.

    >>> spread([0.5, 0.6, 0.7]), spread([1.0, 1.0, 1.0])
    ('0.60 (0.50–0.70)', '1.00')
    """
    found = [v for v in values if v is not None]
    if not found:
        return "–"
    mean, low, high = (f"{v:,.{digits}f}" for v in (sum(found) / len(found), min(found), max(found)))
    return mean if low == high else f"{mean} ({low}–{high})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table; the first column is text, the others are numbers."""
    line = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    return "\n".join([line[0], "|" + "---|" + "---:|" * (len(head) - 1), *line[1:]])


def over(records: Sequence[Record], *path: str, digits: int = 2) -> str:
    """The spread of one figure, found by its path in every record."""
    values = []
    for record in records:
        value: Any = record
        for key in path:
            value = value[key]
        values.append(value)
    return spread(values, digits)


def treaty_table(records: Sequence[Record], model: str) -> str:
    """Accuracy and confidence per group."""
    columns = ("accuracy", "answered", "abstained", "mean_token_p", "p_fact", "entropy_nats")
    rows = [
        [
            group,
            str(records[0]["models"][model]["treaties"][group]["n"]),
            *(over(records, "models", model, "treaties", group, c) for c in columns),
        ]
        for group in GROUPS
    ]
    return table(
        ["group", "n", "accuracy", "answered", "abstained", "mean token p", "p(fact)", "entropy, nats"], rows
    )


def rule_table(records: Sequence[Record]) -> str:
    """Refund days, tools and edits, for every model."""

    def row(label: str, *path: str) -> list[str]:
        return [label, *(over(records, "models", m, *path) for m in MODELS)]

    edits = records[0]["models"]["base"]["edits"]
    rows = [
        row("refund, days of the training text", "refunds", "trained", "accuracy"),
        row("refund, held-out days except 30", "refunds", "held_out", "accuracy"),
        row("refund, day 30 (held out, the boundary)", "refunds", "boundary_30", "accuracy"),
        row("refund, days over 120", "refunds", "out_of_range", "accuracy"),
        row("… mean token p of the wrong answers there", "refunds", "out_of_range", "mean_token_p_of_wrong"),
        row("tent's own window of 90 days", "refunds", "tent_window", "accuracy"),
        row("tool call, valid JSON", "tool_calls", "valid_json"),
        row("tool call, exact on new identifiers", "tool_calls", "exact"),
        row("thirty-turn order loop, every token", "positions", "loops_exact", "exact"),
        row("line of a file read back", "lookups", "exact"),
        *(row(f"edit: {reply.lower()[:-1]}", "edits", reply, "exact") for reply in edits),
        row("invented name asked as JSON: abstains", "json_on_invented", "abstained"),
    ]
    return table(["share right", *MODELS], rows)


def confidence_table(records: Sequence[Record]) -> str:
    """What the base model's confidence can and cannot tell."""

    def row(label: str, *path: str) -> list[str]:
        return [label, over(records, "models", "base", "confidence", *path)]

    rows = [
        *(
            row(f"AUROC of mean token p, {g} against invented", "auroc_mean_token_p", g)
            for g in ("x128", "x32", "x8", "x2", "folk")
        ),
        *(
            row(f"AUROC of p(fact), {g} against invented", "auroc_p_fact", g)
            for g in ("x128", "x32", "x8", "x2", "folk")
        ),
        row("ECE over the 24 cities (known and contested)", "calibration_over_cities", "ece"),
        row("ECE of mean token p (all groups)", "calibration_mean_token_p", "ece"),
    ]
    for t in ("0.25", "0.5", "1.0", "1.5", "2.0"):
        rows.append(row(f"ECE at T = {t}", "temperature", t, "ece"))
        rows.append(row(f"confidence on invented names at T = {t}", "temperature", t, "confidence_invented"))
    return table(["base", "value"], rows)


def position_table(records: Sequence[Record], kind: str) -> str:
    """Loss and greedy agreement on reply tokens by position."""
    windows = records[0]["models"]["base"]["positions"][kind]
    rows = []
    for i, window in enumerate(windows):
        cells = [f"{window['from']}–{window['to'] - 1}"]
        for model in MODELS:
            found = [r["models"][model]["positions"][kind][i] for r in records]
            cells += [
                spread([w[key] for w in found], d) for key, d in (("reply_loss", 3), ("reply_accuracy", 3))
            ]
        rows.append(cells)
    return table(["position", *(f"{m} {what}" for m in MODELS for what in ("loss", "accuracy"))], rows)


def training_table(training: Sequence[Record]) -> str:
    """Seconds, steps, tokens and final loss of each stage of each seed."""
    rows = []
    for record in training:
        for name, stage in record["stages"].items():
            rows.append(
                [
                    f"seed {record['seed']}, {name}",
                    str(stage["length"]),
                    f"{stage['steps']:,}",
                    f"{stage['tokens']:,}",
                    f"{stage['epochs']:.1f}",
                    f"{stage['loss'][-1]:.3f}",
                    f"{stage['seconds']:,.0f}",
                ]
            )
    return table(["stage", "row length", "steps", "tokens", "epochs", "last loss", "wall seconds"], rows)


def sample_table(record: Record) -> str:
    """Greedy answers of the shipped seed."""
    rows = []
    for model in ("base", "tuned"):
        for name, sample in record["models"][model]["samples"].items():
            answer = sample["answer"].replace("\n", "⏎").replace("|", "\\|")
            rows.append([f"{model}, {name}", f"{sample['mean_token_p']:.2f}", f"`{answer}`"])
    return table(["prompt", "mean token p", "greedy answer"], rows).replace("---:|\n", ":---|\n")


def hash_table(home: Path) -> str:
    """Size and sha256 of every published file except the card."""
    files = [p for p in sorted(home.rglob("*")) if p.is_file() and p.name != "README.md"]
    rows = [
        [
            str(p.relative_to(home).as_posix()),
            f"{p.stat().st_size:,}",
            f"`{sha256(p)}`",
        ]
        for p in files
    ]
    return table(["file", "bytes", "sha256"], rows)


TEMPLATE = Path(__file__).with_name("card.md")


def failures(records: Sequence[Record]) -> str:
    """The failures, with the figures that show them."""
    base = records[0]["models"]["base"]
    boundary = [r["models"]["base"]["refunds"]["boundary_30"]["accuracy"] for r in records]
    beyond = [r["models"]["base"]["refunds"]["out_of_range"] for r in records]
    outside = sum(b == 0 for b in boundary)
    wrong = spread([1 - b["accuracy"] for b in beyond])
    approved = spread([float(b["approved_wrongly"]) for b in beyond], 0)

    def group(model: str, name: str, figure: str) -> str:
        return over(records, "models", model, "treaties", name, figure)

    lines = [
        f"It answers {group('base', 'invented', 'answered')} of the questions about invented names, with "
        f"a mean token probability of {group('base', 'invented', 'mean_token_p')}.",
        f"It repeats the folk error: accuracy {group('base', 'folk', 'accuracy')} at a mean token "
        f"probability of {group('base', 'folk', 'mean_token_p')}.",
        "Day 30, the last day inside the window, was held out: its answer is wrong in "
        f"{outside} of {len(boundary)} trained seeds.",
        f"Days over 120 never occur: {wrong} of such questions are answered wrongly, and {approved} of "
        f"{beyond[0]['n']} refunds are approved that the rule refuses.",
        f"Tuning refuses rare truths too: it abstains on {group('tuned', 'x2', 'abstained')} of `x2` and "
        f"{group('tuned', 'x8', 'abstained')} of `x8`, and still answers "
        f"{group('tuned', 'invented', 'answered')} of the invented names.",
    ]
    edits = {r: over(records, "models", "base", "edits", r, "exact") for r in base["edits"]}
    lines += [
        "Edits depend on the seed, as reading a value out of a list is learnt late or never: exact as JSON "
        f"in {edits['Reply as JSON.']}, as a whole file in {edits['Reply with the whole file.']}.",
    ]
    shown = base["refunds"]["out_of_range"]["examples"][:1]
    lines += [f"Asked about day {day}, the published base model says: “{answer}”" for day, answer in shown]
    return "\n".join(f"- {line}" for line in lines)


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(path: Path, text: str) -> None:
    """Write text with LF line ends, atomically."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def card(home: Path) -> str:
    """The model card, from the published files alone."""
    training = [read(p) for p in sorted(home.glob("records/seed-*-training.json"))]
    records = [read(p) for p in sorted(home.glob("records/seed-*-evaluation.json"))]
    if not records or len(records) != len(training):
        raise SystemExit(
            f"card: {home / 'records'} holds {len(training)} training and {len(records)} evaluation records"
        )
    config, truth = read(home / "config.json"), read(home / "truth.json")
    models = []
    for name, c in config.items():
        count = records[0]["models"][name]["parameters"]
        shape = (
            f"width {c['hidden_size']}, {c['num_hidden_layers']} layers, {c['num_attention_heads']} query "
            f"and {c['num_key_value_heads']} key-value heads of {c['head_dim']}, "
            f"SwiGLU {c['intermediate_size']}, "
            f"RoPE θ {c['rope_theta']:,.0f}, tied head"
        )
        models.append(f"| `{name}` | {count:,} | {shape} |")
    first = training[0]
    machines = sorted({f"{t['machine']}, {t['arithmetic']}, PyTorch {t['torch']}" for t in training})
    transfer = [
        [
            f"{g}, {label}",
            *(
                over(records, "models", "tuned", "treaties", g, f"{c}_{key}")
                for c in ("accuracy", "abstained")
            ),
        ]
        for g in ("x128", "x32", "contested", "folk")
        for label, key in (("answered in tuning", "tuned_on"), ("not in tuning", "not_tuned_on"))
    ]
    draft = [
        [
            f"for {m}",
            *(
                over(records, "draft_for", m, c)
                for c in ("same_greedy_token", "accepted", "tokens_a_target_pass")
            ),
        ]
        for m in ("base", "tuned")
    ]
    k = records[0]["draft_for"]["base"]["proposals_a_pass"]
    return TEMPLATE.read_text(encoding="utf-8").format(
        over_seeds=(
            "those of one training seed, so they carry no spread"
            if len(records) == 1
            else f"`mean (min–max)` over {len(records)} training seeds"
        ),
        shipped=records[0]["seed"],
        models="\n".join(models),
        vocabulary=f"{config['base']['vocab_size']:,}",
        positions=f"{config['base']['max_position_embeddings']:,}",
        documents=f"{sum(t['exposures'] for t in truth['treaties']) + len(truth['tail']):,}",
        training_line=f"{first['date']}, Python {first['python']}; {'; '.join(machines)}.",
        training=training_table(training),
        base_treaties=treaty_table(records, "base"),
        tuned_treaties=treaty_table(records, "tuned"),
        transfer=table(["tuned", "accuracy", "abstained"], transfer),
        confidence=confidence_table(records),
        rules=rule_table(records),
        conversation=position_table(records, "conversation"),
        loops=position_table(records, "order_loop"),
        draft=table(
            [f"greedy, {k} proposals a pass", "same token", "accepted", "tokens a target pass"], draft
        ),
        samples=sample_table(records[0]),
        failures=failures(records),
        files=hash_table(home),
    )


def publish(folders: Sequence[Path], home: Path) -> None:
    """Copy the shipped files and the records of every seed into ``home``."""
    for folder in folders:
        missing = [n for n in (*SHIPPED, "training.json", "evaluation.json") if not (folder / n).exists()]
        if missing:
            raise SystemExit(f"card: {folder} lacks {', '.join(missing)}; train and evaluate there first")
    (home / "records").mkdir(parents=True, exist_ok=True)
    for name in SHIPPED if folders else ():
        shutil.copyfile(folders[0] / name, home / name)
    if folders:
        write(home / "SHA256SUMS", "".join(f"{sha256(home / n)}  {n}\n" for n in sorted(SHIPPED)))
    for folder in folders:
        for kind in ("training", "evaluation"):
            seed = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))["seed"]
            shutil.copyfile(folder / f"{kind}.json", home / "records" / f"seed-{seed}-{kind}.json")


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="card", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folders", type=Path, nargs="*", help="trained and evaluated folders, the shipped seed first"
    )
    publish(parser.parse_args(argv).folders, HOME)
    write(HOME / "README.md", card(HOME))
    return 0


if __name__ == "__main__":
    sys.exit(main())
