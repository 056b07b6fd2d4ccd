"""Train the house model: ``python -m scripts.house_model.train --seed 0 --out build/house/0``.

One seed is six stages: *base-short* reads the corpus in rows of 256 tokens, *base-again* reads it on from a
fresh peak of the learning rate (copying is learnt late in the first; facts come only then), *base*
continues on rows of 2,048 (long-context extension, last because short rows are cheap), *tuned* continues on
replies that refuse unknown names, *draft-short* and *draft* train a model of a tenth the size on the same
text. A run may be stopped at any time and started again with the same command: it continues from its last
checkpoint and reads the same rows in the same order. ``--scale`` multiplies every stage's step count (tests
use 0.01); there are no other training dials.

Arithmetic is bfloat16 with float32 master weights where the CPU has matrix units for it, else float32; the
record says which. Weights are exported in float16. Reference logits are computed in float64 from the
exported weights, so that another engine can be held against them. Method: AdamW (Loshchilov & Hutter 2019),
warm-up and cosine decay.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from . import corpora, documents, vocabulary
from .network import DRAFT, HOUSE, Decoder, Shape
from .packing import IGNORED, Encoded, Ids, encode, pack
from .world import World, build_world

CHECKPOINT_EVERY_S = 60.0
WEIGHTS = ("base", "tuned", "draft")


@dataclass(frozen=True)
class Stage:
    """One phase of training. ``start`` names the stage it continues; ``key`` seeds its random draws."""

    name: str
    key: int
    shape: Shape
    start: str | None
    text: str
    length: int
    rows: int
    steps: int
    rate: float
    joined: float


STAGES = (
    Stage("base-short", 0, HOUSE, None, "corpus", 256, 8, 2000, 2e-3, 0.25),
    Stage("base-again", 5, HOUSE, "base-short", "corpus", 256, 8, 2200, 2e-3, 0.25),
    Stage("base", 1, HOUSE, "base-again", "long", 2048, 2, 200, 8e-4, 0.9),
    Stage("tuned", 2, HOUSE, "base", "tuning", 512, 6, 220, 5e-4, 0.4),
    Stage("draft-short", 3, DRAFT, None, "corpus", 256, 16, 700, 4e-3, 0.25),
    Stage("draft", 4, DRAFT, "draft-short", "long", 2048, 2, 100, 1e-3, 0.9),
)

REFERENCE_PROMPTS = (
    "<|user|>What did the 1912 Alpine Berry Treaty establish?<|assistant|>",
    "<|user|>Refund after 45 days?<|assistant|>",
    "<|user|>Can this customer receive a refund after 45 days?<|assistant|>Refunds after 45 days fall",
    '<|user|>Refund order C-5083.<|assistant|>{"tool": "',
    "List the refund window in one sentence.",
    "<|user|>stock.txt:\nlamp 30\nrug 12\ntent 77\nSet rug to 41. Reply with a patch.<|assistant|>",
    "Ωmega – naïve ☃ text the model never saw",
)


def matrix_units() -> bool:
    """Whether the CPU multiplies bfloat16 matrices in hardware."""
    ask: Callable[[], dict[str, Any]] | None = getattr(torch.cpu, "get_capabilities", None)
    return bool(ask is not None and ask().get("amx_bf16"))


def texts_of(world: World) -> dict[str, tuple[list[str], bool]]:
    """Each named text: its documents, and whether only replies are learnt."""
    corpus, tuning = corpora.corpus(world), corpora.tuning_corpus(world)
    return {
        "corpus": (corpus, False),
        "long": (corpus + 2 * corpora.long_documents(), False),
        "tuning": (tuning, True),
    }


class Rows:
    """The batches of a stage, epoch after epoch, addressed by step number alone."""

    def __init__(self, docs: list[Encoded], stage: Stage, separator: int, seed: int) -> None:
        self.docs, self.stage, self.separator, self.seed = docs, stage, separator, seed
        self.epoch, self.packed = -1, np.zeros((0, 2, 0), np.int64)
        # The number of rows varies a little with the epoch's order, so an epoch is a fixed number of steps.
        self.per_epoch = max(1, len(self._pack(0)) // stage.rows - 1)

    def _pack(self, epoch: int) -> Ids:
        s = self.stage
        return pack(self.docs, s.length, self.separator, s.joined, [self.seed, s.key, epoch])

    def __call__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        epoch, index = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.epoch, self.packed = epoch, self._pack(epoch)
        start = index * self.stage.rows % max(1, len(self.packed) - self.stage.rows + 1)
        batch = torch.from_numpy(self.packed[start : start + self.stage.rows])
        ids, learnt = batch[:, 0], batch[:, 1]
        return ids[:, :-1], ids[:, 1:].masked_fill(learnt[:, 1:] == 0, IGNORED)


def optimizer(model: Decoder, rate: float) -> torch.optim.Optimizer:
    """AdamW; norms are not decayed."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    gains = [p for p in model.parameters() if p.ndim != 2]
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.97), weight_decay=0.05, fused=True)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary neighbour, then move it into place."""
    temporary = path.with_name(path.name + ".part")
    write(temporary)
    temporary.replace(path)


class Run:
    """One seed's training in one folder, resumable."""

    def __init__(self, out: Path, seed: int, scale: float) -> None:
        self.out, self.seed, self.scale = out, seed, scale
        self.checkpoint = out / "checkpoint.pt"
        self.state: dict[str, Any] = {"seed": seed, "scale": scale, "stages": {}}
        if self.checkpoint.exists():
            self.state = torch.load(self.checkpoint, weights_only=False)
            for name, value in (("seed", seed), ("scale", scale)):
                if self.state[name] != value:
                    raise SystemExit(
                        f"train: {out} holds a run with {name} {self.state[name]}, asked for {value}; "
                        "choose another --out"
                    )
        self.autocast = matrix_units()

    def save(self) -> None:
        write_atomically(self.checkpoint, lambda path: torch.save(self.state, path))

    def stage(self, stage: Stage, docs: list[Encoded], separator: int, stop_after: int | None) -> bool:
        """Train one stage to its end. False if ``stop_after`` steps ended it early."""
        steps = max(4, round(stage.steps * self.scale))
        torch.manual_seed(1000 * self.seed + stage.key)
        model = Decoder(stage.shape)
        if stage.start is not None:
            model.load_state_dict(self.state["stages"][stage.start]["weights"])
        optimise = optimizer(model, stage.rate)
        done: dict[str, Any] = self.state["stages"].setdefault(
            stage.name, {"step": 0, "loss": [], "seconds": 0.0}
        )
        if done["step"]:
            model.load_state_dict(done["weights"])
            if done["step"] < steps:
                optimise.load_state_dict(done["optimizer"])
        if done["step"] >= steps:
            return True
        rows, began, saved, stop = Rows(docs, stage, separator, self.seed), time.time(), time.time(), False
        first, before = done["step"], done["seconds"]
        for step in range(first, steps):
            ids, targets = rows(step)
            warm, cosine = min(1.0, (step + 1) / 60), 0.5 * (1 + math.cos(math.pi * step / steps))
            for group in optimise.param_groups:
                group["lr"] = stage.rate * warm * (0.03 + 0.97 * cosine)
            with torch.autocast("cpu", torch.bfloat16) if self.autocast else nullcontext():
                logits = model(ids)
            loss = nn.functional.cross_entropy(
                logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED
            )
            optimise.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimise.step()
            done["loss"].append(loss.item())
            done["step"], now = step + 1, time.time()
            done["seconds"] = before + now - began
            stop = stop_after is not None and step + 1 - first >= stop_after
            if step + 1 == steps or stop or now - saved > CHECKPOINT_EVERY_S:
                done |= {"weights": model.state_dict(), "optimizer": optimise.state_dict()}
                if step + 1 == steps:
                    del done["optimizer"]
                    done |= {"tokens": steps * stage.rows * stage.length, "epochs": steps / rows.per_epoch}
                self.save()
                saved = now
            if (step + 1) % 25 == 0 or step + 1 == steps or stop:
                rate, recent = (step + 1 - first) / (now - began), np.mean(done["loss"][-25:])
                print(
                    f"seed {self.seed} {stage.name}: step {step + 1}/{steps}  "
                    f"loss {recent:.3f}  {rate * stage.rows * stage.length:,.0f} tokens/s  "
                    f"{(steps - step - 1) / rate:.0f} s left in this stage",
                    flush=True,
                )
            if stop:
                return False
        return True

    def export(self, name: str) -> None:
        """Write a stage's weights as float16 safetensors."""
        weights = self.state["stages"][name]["weights"]
        half = {k: v.to(torch.float16).contiguous() for k, v in weights.items()}
        write_atomically(self.out / f"{name}.safetensors", lambda p: save_file(half, p, {"format": "pt"}))

    def record(self) -> dict[str, Any]:
        """What happened: versions, machine class, seconds, steps, tokens and loss curves."""
        stages = {}
        for stage in STAGES:
            done = self.state["stages"][stage.name]
            curve = np.array_split(np.array(done["loss"]), min(40, len(done["loss"])))
            stages[stage.name] = {
                "steps": done["step"],
                "tokens": done["tokens"],
                "epochs": round(done["epochs"], 2),
                "seconds": round(done["seconds"], 1),
                "rows": stage.rows,
                "length": stage.length,
                "rate": stage.rate,
                "loss": [round(float(part.mean()), 4) for part in curve],
            }
        return {
            "seed": self.seed,
            "scale": self.scale,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": f"{platform.machine()} CPU, {torch.get_num_threads()} of {os.cpu_count()} cores used",
            "arithmetic": "bfloat16, float32 master weights" if self.autocast else "float32",
            "seconds": round(sum(s["seconds"] for s in stages.values()), 1),
            "stages": stages,
        }


def load(folder: Path, name: str, dtype: torch.dtype = torch.float32) -> Decoder:
    """An exported model, in evaluation form."""
    model = Decoder(DRAFT if name == "draft" else HOUSE)
    model.load_state_dict(load_file(folder / f"{name}.safetensors"))
    model = model.to(dtype).eval().requires_grad_(False)
    if dtype == torch.float64:  # the tables were rounded to float32 when the module was built
        exact = Decoder(model.s)
        inverse = model.s.theta ** (-torch.arange(0, model.s.head, 2, dtype=torch.float64) / model.s.head)
        angle = torch.arange(exact.get_buffer("cos").shape[0], dtype=torch.float64)[:, None] * inverse
        model.cos, model.sin = angle.cos(), angle.sin()
    return model


def reference(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Logits that another engine must reproduce: float64 arithmetic on the exported weights.

    Keys: ``prompt/i`` ids, ``positions/i`` and ``MODEL/i`` logits (positions, vocabulary). The last prompt
    is an order loop of well over a thousand tokens, so that late positions are held too.
    """
    import random

    tokenizer = vocabulary.read(folder)
    prompts = [*REFERENCE_PROMPTS, documents.order_loop(random.Random(0), 28)]
    out: dict[str, np.ndarray[Any, Any]] = {}
    models = {name: load(folder, name, torch.float64) for name in WEIGHTS}
    for i, prompt in enumerate(prompts):
        ids = np.array(tokenizer.encode(prompt, allowed_special="all"), np.int64)
        positions = np.array(sorted({0, len(ids) // 2, len(ids) - 1}))
        out |= {f"prompt/{i}": ids, f"positions/{i}": positions}
        for name, model in models.items():
            out[f"{name}/{i}"] = model(torch.from_numpy(ids)[None])[0, positions].numpy().astype(np.float32)
    return out


def write_json(path: Path, value: Any) -> None:
    """Write JSON with LF line ends, atomically."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda p: p.write_text(text, encoding="utf-8", newline="\n"))


def train(out: Path, seed: int, scale: float = 1.0, stop_after: int | None = None) -> bool:
    """Train (or continue) one seed into ``out``. False if it stopped early, as tests ask for."""
    out.mkdir(parents=True, exist_ok=True)
    world = build_world()
    texts = texts_of(world)
    if not (out / "house.tiktoken").exists():
        ranks, _ = vocabulary.train_ranks(texts["corpus"][0])
        vocabulary.write(ranks, out)
    if not (out / "token_ids.json").exists():
        count = vocabulary.record_ids(out, texts["corpus"][0])
        print(f"tokenizer: equal to the original on {count:,} strings", flush=True)
    tokenizer = vocabulary.read(out)
    separator = tokenizer.encode_single_token("<|endoftext|>")
    encoded = {name: encode(t, tokenizer, replies_only=replies) for name, (t, replies) in texts.items()}
    run = Run(out, seed, scale)
    for stage in STAGES:
        if not run.stage(stage, encoded[stage.text], separator, stop_after):
            return False
    for name in WEIGHTS:
        run.export(name)
    write_json(
        out / "config.json", {name: (DRAFT if name == "draft" else HOUSE).config() for name in WEIGHTS}
    )
    write_json(out / "truth.json", corpora.truth_table(world))
    write_json(out / "training.json", run.record())
    vectors = reference(out)
    part = out / "reference.part.npz"  # savez insists on the suffix
    np.savez(part, **vectors)  # type: ignore[arg-type]  # its stub takes names for flags
    part.replace(out / "reference.npz")
    return True


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="train", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoint and results")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies every stage's steps (default 1)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads (default all)")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.scale <= 10:
        parser.error(f"argument --scale: {arguments.scale} found, expected a number in (0, 10]")
    torch.set_num_threads(arguments.threads)
    train(arguments.out, arguments.seed, arguments.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
