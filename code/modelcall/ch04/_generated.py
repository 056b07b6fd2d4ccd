"""What context costs in memory

Written by scripts/tangle.py from the "# @save" cells of chapters/04-kv-cache.ipynb: edit those.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from modelcall.lab import args, facts
from modelcall.lab.model_errors import CacheFull


# cell: Floats
Floats = NDArray[np.floating[Any]]


def attend(queries: Floats, keys: Floats, values: Floats) -> Floats:
    """Return what the query heads of one token read, (query heads, head size).

    Each KV head serves as many neighbouring query heads as there are to it.
    Method: Vaswani et al. (2017); shared heads: Ainslie et al. (2023).

    Args:
        queries: (query heads, head size), of the newest token.
        keys, values: (KV heads, tokens, head size), of all tokens up to it.

    Raises:
        ValueError: the shapes do not fit, or there is no token.

    >>> one = np.ones((1, 3, 2))
    >>> attend(np.ones((4, 2)), one, 5 * one).tolist()[0]
    [5.0, 5.0]
    """
    q, k, v = np.asarray(queries), np.asarray(keys), np.asarray(values)
    fits = q.ndim == 2 and k.ndim == 3 and k.shape == v.shape and k.size > 0
    if not fits or q.shape[1] != k.shape[2] or not len(q) or len(q) % len(k):
        found = f"queries {q.shape}, keys {k.shape}, values {v.shape}"
        raise ValueError(f"attend: shapes that do not fit: {found}")
    grouped = q.reshape(len(k), -1, q.shape[1])
    scores = grouped @ k.swapaxes(1, 2) / math.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights @ v / weights.sum(-1, keepdims=True)
    return np.asarray(mixed).reshape(q.shape)


# cell: kv_token_bytes
def kv_token_bytes(
    layers: int, kv_heads: int, head_dim: int, value_bytes: int = 2
) -> int:
    """Return the bytes of KV cache that one token takes.

    Raises:
        TypeError: an argument is not an integer.
        ValueError: an argument is less than 1.

    >>> kv_token_bytes(layers=32, kv_heads=8, head_dim=128)
    131072
    """
    wide = args.integer("value_bytes", value_bytes, at_least=1)
    deep = args.integer("layers", layers, at_least=1)
    heads = args.integer("kv_heads", kv_heads, at_least=1)
    size = args.integer("head_dim", head_dim, at_least=1)
    return 2 * deep * heads * size * wide


# cell: ModelProfile
@dataclass(frozen=True)
class ModelProfile:
    """The shape of a decoder, as far as memory depends on it.

    ``norms`` counts the normalisations of a layer. ``latent`` is the number of
    values that a layer with latent attention keeps for a token, or 0. ``window``
    is the reach in tokens of ``windowed_layers`` of the layers; the others reach
    all the way. ``stated_parameters`` replaces the count of the formula.

    Raises:
        TypeError: a field of another type than its own.
        ValueError: a size below 1, KV heads that do not divide the query heads,
            more windowed layers than layers, or a window without layers.
    """

    name: str
    layers: int
    d_model: int
    query_heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    vocab: int
    tied: bool = False
    norms: int = 2
    latent: int = 0
    window: int = 0
    windowed_layers: int = 0
    stated_parameters: int = 0

    def __post_init__(self) -> None:
        args.plain(self)
        for name in list(vars(self))[1:8]:  # the sizes that every model has
            args.integer(name, getattr(self, name), at_least=1)
        if self.query_heads % (kv := self.kv_heads):
            raise ValueError(f"query_heads: no multiple of {kv} KV heads")
        args.integer("windowed_layers", self.windowed_layers, at_most=self.layers)
        if (self.window > 0) != (self.windowed_layers > 0):
            raise ValueError("window: expected with windowed_layers, or neither")


# cell: attention_kind
def attention_kind(model: ModelProfile) -> str:
    """Return MHA, GQA, MQA or MLA, by what the model keeps for a token.

    >>> attention_kind(model_profile("gemma-2b"))
    'MQA'
    """
    if model.latent:
        return "MLA"
    if model.kv_heads == model.query_heads:
        return "MHA"
    return "MQA" if model.kv_heads == 1 else "GQA"


def model_profile(name: str) -> ModelProfile:
    """Return a profile from the dated facts; one past its shelf life warns.

    Raises:
        FactsError: there is no fact of that name.

    >>> model_profile("llama-3-70b").kv_heads
    8
    """
    values: dict[str, Any] = dict(facts.fact(f"model.{name}").value)
    return ModelProfile(name, **values)


# cell: Format
@dataclass(frozen=True)
class Format:
    """How numbers are stored: ``bits`` each, and a scale for each ``group``.

    A group of 0 means that scales are too few to count.

    Raises:
        TypeError: a field of another type than its own.
        ValueError: no bits, or a group without a scale or the other way round.

    >>> Format("q4_0", bits=4, group=32, scale_bits=16).vector_bytes(128)
    72
    """

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 0

    def __post_init__(self) -> None:
        args.plain(self)
        args.integer("bits", self.bits, at_least=1)
        if (self.group > 0) != (self.scale_bits > 0):
            raise ValueError("group: expected with scale_bits, or neither")

    def vector_bytes(self, size: int) -> int:
        """Return the bytes of one vector; the next begins a byte and a group."""
        numbers = args.count("size", size)
        scales = -(-numbers // self.group) if self.group else 0
        return -(-numbers * self.bits // 8) + -(-scales * self.scale_bits // 8)


FP16, FP8 = Format("FP16", 16), Format("FP8", 8)
INT8, INT4 = Format("INT8", 8, 32, 16), Format("INT4", 4, 32, 16)


# cell: kv_bytes
def kv_bytes(
    model: ModelProfile,
    tokens: int,
    fmt: Format = FP16,
    *,
    sequences: int = 1,
    heads: int | None = None,
) -> int:
    """Return the bytes of KV cache for sequences of ``tokens`` tokens each.

    ``heads`` is the number of KV heads to count, all by default; a latent serves
    all heads. A windowed layer keeps at most its window.

    Raises:
        TypeError: a count is not an integer.
        ValueError: a count is negative or too large.

    >>> kv_bytes(model_profile("mistral-7b"), 100_000) / 2**20
    512.0
    """
    n = args.count("tokens", tokens)
    kept = model.kv_heads if heads is None else args.count("heads", heads)
    if model.latent:
        layer = fmt.vector_bytes(model.latent)
    else:
        layer = 2 * kept * fmt.vector_bytes(model.head_dim)
    full = (model.layers - model.windowed_layers) * n
    windowed = model.windowed_layers * min(n, model.window)
    return args.count("sequences", sequences) * (full + windowed) * layer


# cell: quantize
def quantize(values: Floats, fmt: Format) -> tuple[NDArray[np.uint8], Floats]:
    """Round to 4 or 8 bits; return the codes, and an fp16 scale for each group.

    Groups run along the last axis; its size is even and a multiple of the group.
    Codes are signed; two codes of 4 bits share a byte, the first in its low half.

    Raises:
        ValueError: another format, a size that is no multiple, or a number that
            is not finite or too large for a scale.

    >>> codes, scales = quantize(np.arange(32.0), INT4)
    >>> codes.nbytes + scales.nbytes == INT4.vector_bytes(32)
    True
    """
    x = np.asarray(values, np.float64)
    top = 2 ** (fmt.bits - 1) - 1
    ragged = x.ndim < 1 or fmt.group < 1 or x.shape[-1] % math.lcm(fmt.group, 2)
    if fmt.bits not in (4, 8) or ragged:
        raise ValueError(f"quantize: {x.shape} cannot be stored as {fmt}")
    grouped = x.reshape(*x.shape[:-1], -1, fmt.group)
    if not np.abs(grouped).max(initial=0.0) <= 65504.0 * top:
        raise ValueError("quantize: a number is not finite or too large")
    scales = (np.abs(grouped).max(-1, keepdims=True) / top).astype(np.float16)
    steps = grouped / np.where(scales > 0, scales, np.float16(np.inf))
    codes = np.rint(steps).clip(-top, top).astype(np.int8).reshape(x.shape)
    if fmt.bits == 4:
        codes = (codes[..., ::2] & 15) | (codes[..., 1::2] << 4)
    return codes.view(np.uint8), scales[..., 0]


# cell: dequantize
def dequantize(codes: NDArray[np.uint8], scales: Floats, fmt: Format) -> Floats:
    """Return the numbers that ``quantize`` stored, as they were rounded.

    Raises:
        ValueError: codes and scales that do not belong together.

    >>> rows = np.array([[-1.0, 0.5] * 16])
    >>> again = dequantize(*quantize(rows, INT8), INT8)
    >>> bool(np.allclose(again, rows, atol=0.005))
    True
    """
    signed: NDArray[Any] = np.asarray(codes).view(np.int8)
    if fmt.bits == 4:
        low, high = (signed << 4) >> 4, signed >> 4
        signed = np.stack([low, high], -1).reshape(*signed.shape[:-1], -1)
    if signed.shape[-1] != np.shape(scales)[-1] * fmt.group:
        raise ValueError(f"dequantize: {np.shape(codes)} and {np.shape(scales)}")
    steps = np.repeat(np.asarray(scales, np.float64), fmt.group, axis=-1)
    return np.asarray(signed * steps, np.float64)


# cell: kv_heads_stored
def kv_heads_stored(model: ModelProfile, devices: int) -> tuple[int, ...]:
    """Return how many KV heads each device keeps, query heads dealt out evenly.

    A device keeps every KV head that one of its query heads reads, so a KV head
    whose readers are on several devices is kept on each of them.

    Raises:
        TypeError: ``devices`` is not an integer.
        ValueError: it is less than 1, or the query heads do not divide by it.

    >>> kv_heads_stored(model_profile("llama-3-8b"), 4)
    (2, 2, 2, 2)
    """
    n = args.integer("devices", devices, at_least=1)
    if model.query_heads % n:
        heads = model.query_heads
        raise ValueError(f"devices: {heads} query heads do not divide by {n}")
    share, group = model.query_heads // n, model.query_heads // model.kv_heads
    starts = range(0, model.query_heads, share)
    return tuple(len({q // group for q in range(s, s + share)}) for s in starts)


def parameter_count(model: ModelProfile, devices: int = 1) -> int:
    """Return the parameters on the device that holds most, all of them on one.

    Matrices are split, normalisations copied. Where a profile states the number,
    that is divided. Raises as ``kv_heads_stored`` does.

    >>> parameter_count(model_profile("gemma-2b"))
    2506172416
    """
    heads = model.query_heads // devices + max(kv_heads_stored(model, devices))
    if model.stated_parameters:
        return -(-model.stated_parameters // devices)
    slices = 3 * -(-model.d_ff // devices)
    wide = 2 * heads * model.head_dim + slices + model.norms
    tables = (1 if model.tied else 2) * -(-model.vocab // devices)
    return model.d_model * (model.layers * wide + tables + 1)


# cell: Device
@dataclass(frozen=True)
class Device:
    """An accelerator: the capacity in its name, and its driver's number, or 0.

    Raises:
        TypeError: a field of another type than its own.
        ValueError: no capacity.
    """

    name: str
    label_gb: int
    driver_mib: int = 0

    def __post_init__(self) -> None:
        args.plain(self)
        args.integer("label_gb", self.label_gb, at_least=1)

    def capacity_bytes(self, reading: str = "GB") -> int:
        """Return the capacity: the label as "GB" or "GiB", or the "driver".

        Raises:
            ValueError: another reading, or one that no fact supports.

        >>> Device("x", 80).capacity_bytes("GiB")
        85899345920
        """
        readings = {"GB": self.label_gb * 10**9, "GiB": self.label_gb * 2**30}
        if self.driver_mib:
            readings["driver"] = self.driver_mib * 2**20
        if reading not in readings:
            expected = f"expected one of {', '.join(readings)}"
            raise ValueError(f"reading: {expected}; {args.found(reading)}")
        return readings[reading]


# cell: device
def device(name: str) -> Device:
    """Return a device from the dated facts; one past its shelf life warns.

    Raises:
        FactsError: there is no fact of that name.

    >>> device("h100-80")
    Device(name='h100-80', label_gb=80, driver_mib=81559)
    """
    label: Any = facts.fact(f"device.{name}.label").value["capacity_GB"]
    reported: Any = 0
    if f"device.{name}.driver" in facts.known("device."):
        reported = facts.fact(f"device.{name}.driver").value["capacity_MiB"]
    return Device(name, label, reported)


# cell: Fit
@dataclass(frozen=True)
class Fit:
    """What the fullest device has to hold, and what it can; all in bytes.

    >>> Fit(weights=70, cache=20, workspace=0, capacity=80).spare
    -10
    """

    weights: int
    cache: int
    workspace: int
    capacity: int

    @property
    def needed(self) -> int:
        return self.weights + self.cache + self.workspace

    @property
    def spare(self) -> int:
        """What stays free; negative where bytes are missing."""
        return self.capacity - self.needed

    @property
    def fits(self) -> bool:
        return self.spare >= 0

    def __str__(self) -> str:
        word = "spare" if self.fits else "missing"
        sizes = [self.needed, self.capacity, abs(self.spare)]
        gb, gib = ([f"{n / unit:.2f}" for n in sizes] for unit in (10**9, 2**30))
        more = f"{gib[0]} of {gib[1]} GiB, {gib[2]}"
        return f"{gb[0]} of {gb[1]} GB, {gb[2]} {word} ({more})"


# cell: fit
def fit(
    model: ModelProfile,
    capacity_bytes: int,
    tokens: int,
    *,
    devices: int = 1,
    sequences: int = 1,
    weights: Format = FP8,
    cache: Format = FP16,
    workspace_bytes: int = 0,
    parameters: int = 0,
) -> Fit:
    """Check weights, cache and workspace on the fullest of ``devices`` devices.

    Heads and matrices are dealt out; a latent is kept whole on every device. The
    workspace is that of one device. ``parameters`` overrides the count.

    Raises:
        TypeError, ValueError: as ``kv_bytes``, ``kv_heads_stored`` and counts do.

    >>> fit(model_profile("gemma-2b"), 10**10, 8192, weights=FP16).fits
    True
    """
    most = max(kv_heads_stored(model, devices))
    if given := args.count("parameters", parameters):
        model = replace(model, stated_parameters=given)
    held = weights.vector_bytes(parameter_count(model, devices))
    kept = kv_bytes(model, tokens, cache, sequences=sequences, heads=most)
    space = args.count("workspace_bytes", workspace_bytes)
    return Fit(held, kept, space, args.count("capacity_bytes", capacity_bytes))


# cell: longest_context
def longest_context(
    model: ModelProfile, capacity_bytes: int, **options: Any
) -> int:
    """Return the most tokens that fit; ``options`` are those of ``fit``.

    Raises:
        TypeError, ValueError: as ``fit`` does; also if no context fits, or if
            every one does, because all layers have a window.

    >>> longest_context(model_profile("llama-3-8b"), 24 * 10**9)
    121839
    """

    def too_long(tokens: int) -> bool:
        return not fit(model, capacity_bytes, tokens, **options).fits

    if too_long(0):
        raise ValueError("capacity_bytes: too small for the weights alone")
    if model.windowed_layers == model.layers and not too_long(model.window):
        raise ValueError("model: its windows bound the cache; any context fits")
    return bisect_left(range(args.LARGEST_COUNT), True, key=too_long) - 1


# cell: ContiguousArena
class ContiguousArena:
    """A row of token slots in which each sequence gets neighbours, first fit.

    ``rule`` says from the tokens of the prompt and of the whole how many slots.

    >>> arena = ContiguousArena(10, lambda prompt, final: 6)
    >>> arena.admit(1, 6), arena.admit(1, 6), arena.reserved
    (0, None, 6)
    """

    def __init__(self, slots: int, rule: Callable[[int, int], int]) -> None:
        self.slots = args.integer("slots", slots, at_least=1)
        self.rule = rule
        self.taken: dict[int, int] = {}  # first slot: number of slots

    @property
    def reserved(self) -> int:
        return sum(self.taken.values())

    def admit(self, prompt: int, final: int) -> int | None:
        """Return the first slot of the first hole that is large enough."""
        size, start = self.rule(prompt, final), 0
        for first, length in [*sorted(self.taken.items()), (self.slots, 0)]:
            if first - start >= size:
                self.taken[start] = size
                return start
            start = first + length
        return None

    def grow(self, sequence: int) -> bool:
        return sequence in self.taken

    def close(self, sequence: int) -> None:
        del self.taken[sequence]


# cell: Arena
class Arena(Protocol):
    """What ``serve`` asks of a memory for token slots."""

    @property
    def reserved(self) -> int: ...

    def admit(self, prompt: int, final: int, /) -> int | None: ...

    def grow(self, sequence: int, /) -> bool: ...

    def close(self, sequence: int, /) -> None: ...


class Load(NamedTuple):
    """One step: sequences that run, tokens they hold, slots set aside for them,
    and tokens thrown away in it, to be computed again."""

    running: int
    held: int
    reserved: int
    lost: int


# cell: serve
def serve(requests: Iterable[tuple[int, int]], arena: Arena) -> list[Load]:
    """Serve (prompt tokens, final tokens) in order; log each step.

    Raises:
        ValueError: a request that does not fit the empty memory.

    >>> [load.held for load in serve([(1, 3), (2, 3)], ContiguousArena(4, max))]
    [2, 3, 3]
    """
    waiting = deque(requests)
    running: list[list[int]] = []  # sequence, tokens held, final tokens
    log: list[Load] = []
    while waiting or running:
        while waiting and (new := arena.admit(*waiting[0])) is not None:
            running.append([new, *waiting.popleft()])
        lost = 0
        for row in list(running):
            while row in running and not arena.grow(row[0]):
                sequence, held, final = running.pop()
                arena.close(sequence)
                waiting.appendleft((held, final))
                lost += held
            row[1] += row in running
        if not running:  # not admitted, or grown out of the whole memory
            raise ValueError(f"requests: {waiting[0]} fits nowhere")
        held = sum(row[1] for row in running)
        log.append(Load(len(running), held, arena.reserved, lost))
        for row in [row for row in running if row[1] >= row[2]]:
            running.remove(row)
            arena.close(row[0])
    return log


# cell: BlockPool
class BlockPool:
    """Numbered blocks, each with the number of its readers; 0 readers means free.

    >>> pool = BlockPool(2)
    >>> pool.take(), pool.readers
    (0, [1, 0])
    """

    def __init__(self, blocks: int) -> None:
        size = args.integer("blocks", blocks, at_least=1)
        self.readers = [0] * size
        self.free = list(range(size - 1, -1, -1))

    def take(self) -> int:
        """Return a free block with one reader; CacheFull if there is none."""
        if not self.free:
            raise CacheFull(f"all {len(self.readers)} blocks are in use")
        block = self.free.pop()
        self.readers[block] = 1
        return block

    def share(self, block: int) -> int:
        """Add a reader to a block in use, and return the block."""
        if self.readers[args.integer("block", block)] == 0:
            raise ValueError(f"block: {block} is free, so it cannot be shared")
        self.readers[block] += 1
        return block

    def drop(self, block: int) -> None:
        """Take a reader away; without any the block is free."""
        if self.readers[args.integer("block", block)] == 0:
            raise ValueError(f"block: {block} is free already")
        self.readers[block] -= 1
        if self.readers[block] == 0:
            self.free.append(block)


# cell: BlockTables
class BlockTables(BlockPool):
    """Sequences over a pool: the blocks of each in order, and its tokens.

    >>> tables = BlockTables(blocks=4, block_tokens=16)
    >>> tables.open(), tables.fork(0), tables.lengths
    (0, 1, {0: 0, 1: 0})
    """

    def __init__(self, blocks: int, block_tokens: int = 16) -> None:
        super().__init__(blocks)
        self.block_tokens = args.integer("block_tokens", block_tokens, at_least=1)
        self.tables: dict[int, list[int]] = {}
        self.lengths: dict[int, int] = {}
        self.opened = 0

    def length(self, sequence: int) -> int:
        """Return the tokens of a sequence; ValueError if it is not open."""
        if sequence not in self.lengths:
            raise ValueError(f"sequence: {sequence!r} is not open")
        return self.lengths[sequence]

    def open(self) -> int:
        """Return the number of a new, empty sequence; no number comes twice."""
        number, self.opened = self.opened, self.opened + 1
        self.tables[number], self.lengths[number] = [], 0
        return number

    def fork(self, parent: int) -> int:
        """Return a new sequence that shares all tokens of ``parent``."""
        used, child = -(-self.length(parent) // self.block_tokens), self.open()
        self.tables[child] = [self.share(b) for b in self.tables[parent][:used]]
        self.lengths[child] = self.lengths[parent]
        return child

    def close(self, sequence: int) -> None:
        """Forget a sequence; blocks that nobody else reads become free."""
        self.length(sequence)
        del self.lengths[sequence]
        for block in self.tables.pop(sequence):
            self.drop(block)


# cell: PagedTables
class PagedTables(BlockTables):
    """Tables that grow block by block, and copy a shared block before a write.

    >>> tables = PagedTables(blocks=4, block_tokens=16)
    >>> first = tables.open()
    >>> tables.reserve(first, 20), tables.tables[first], tables.advance(first, 20)
    (None, [0, 1], None)
    >>> tables.reserve(tables.fork(first), 1), tables.readers
    ((1, 2), [2, 1, 1, 0])
    """

    def _shared_end(self, sequence: int) -> bool:
        at, offset = divmod(self.length(sequence), self.block_tokens)
        return offset > 0 and self.readers[self.tables[sequence][at]] > 1

    def missing(self, sequence: int, tokens: int) -> int:
        """Return the blocks that ``tokens`` more would take, a copy included."""
        end = self.length(sequence) + args.count("tokens", tokens)
        more = -(-end // self.block_tokens) - len(self.tables[sequence])
        return max(0, more) + int(tokens > 0 and self._shared_end(sequence))

    def reserve(self, sequence: int, tokens: int) -> tuple[int, int] | None:
        """Make room or raise CacheFull; return (from, to) of a copied block."""
        if (need := self.missing(sequence, tokens)) > len(self.free):
            raise CacheFull(f"{need} blocks needed, {len(self.free)} free")
        table, copy = self.tables[sequence], None
        at = self.lengths[sequence] // self.block_tokens
        if tokens > 0 and self._shared_end(sequence):
            copy = (table[at], self.take())
            self.drop(table[at])
            table[at] = copy[1]
        while len(table) * self.block_tokens < self.lengths[sequence] + tokens:
            table.append(self.take())
        return copy

    def advance(self, sequence: int, tokens: int) -> None:
        """Count reserved tokens as held; ValueError if they were not reserved."""
        if self.missing(sequence, tokens):
            raise ValueError(f"tokens: {tokens} were not reserved for {sequence}")
        self.lengths[sequence] += tokens


# cell: PagedArena
class PagedArena(PagedTables):
    """Block tables as a memory that ``serve`` can use.

    >>> len(serve([(20, 22)] * 3, PagedArena(blocks=4, block_tokens=16)))
    4
    """

    @property
    def reserved(self) -> int:
        return (len(self.readers) - len(self.free)) * self.block_tokens

    def admit(self, prompt: int, final: int) -> int | None:
        """Open a sequence with its prompt, or return None."""
        sequence = self.open()
        if self.missing(sequence, prompt) > len(self.free):
            self.close(sequence)
            return None
        self.reserve(sequence, prompt)
        self.advance(sequence, prompt)
        return sequence

    def grow(self, sequence: int) -> bool:
        """Add a token, or return False if no block is free."""
        if self.missing(sequence, 1) > len(self.free):
            return False
        self.reserve(sequence, 1)
        self.advance(sequence, 1)
        return True


# cell: PagedStore
class PagedStore(PagedTables):
    """Arrays under the tables; a block that is copied takes its contents along.

    ``shape`` is (layers, KV heads, head size). Keys and values have the shape
    (layers, blocks, KV heads, block tokens, head size).

    >>> PagedStore((1, 2, 4), blocks=3, block_tokens=16).keys.shape
    (1, 3, 2, 16, 4)
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        blocks: int,
        block_tokens: int = 16,
        dtype: Any = np.float64,
    ) -> None:
        super().__init__(blocks, block_tokens)
        deep, heads, size = (args.integer("shape", n, at_least=1) for n in shape)
        full = (deep, blocks, heads, block_tokens, size)
        self.keys: Floats = np.zeros(full, dtype)
        self.values: Floats = np.zeros(full, dtype)

    def reserve(self, sequence: int, tokens: int) -> tuple[int, int] | None:
        """Make room or raise CacheFull; return (from, to) of a copied block."""
        if copy := super().reserve(sequence, tokens):
            for store in (self.keys, self.values):
                store[:, copy[1]] = store[:, copy[0]]
        return copy


# cell: PagedCache
class PagedCache(PagedStore):
    """Keys and values, written and read through the tables.

    Method: Kwon et al. (2023).

    >>> cache = PagedCache((1, 2, 4), blocks=3, block_tokens=2)
    >>> append_tokens(cache, cache.open(), *np.ones((2, 1, 2, 3, 4)))
    >>> cache.gather(0, 0)[0].shape, cache.tables
    ((2, 3, 4), {0: [0, 1]})
    """

    def write(
        self, layer: int, sequence: int, keys: Floats, values: Floats
    ) -> None:
        """Write (KV heads, tokens, head size) of a layer into reserved room."""
        at = self.length(sequence) + np.arange(keys.shape[1])
        table = np.array(self.tables[sequence], np.intp)
        block, place = table[at // self.block_tokens], at % self.block_tokens
        for store, new in ((self.keys, keys), (self.values, values)):
            store[layer, block, :, place] = new.swapaxes(0, 1)

    def gather(
        self, layer: int, sequence: int, more: int = 0
    ) -> tuple[Floats, Floats]:
        """Return all keys and values in order; ``more`` are not yet held."""
        n = self.length(sequence) + args.count("more", more)
        used = -(-n // self.block_tokens)
        table = np.array(self.tables[sequence][:used], np.intp)
        stores = (self.keys, self.values)
        keys, values = (store[layer, table].swapaxes(0, 1) for store in stores)
        flat = (keys.shape[0], -1, keys.shape[3])
        return keys.reshape(flat)[:, :n], values.reshape(flat)[:, :n]


# cell: append_tokens
def append_tokens(
    cache: PagedCache, sequence: int, keys: Floats, values: Floats
) -> None:
    """Append (layers, KV heads, tokens, head size) to a sequence, in all layers.

    Raises:
        CacheFull: there is no room; nothing is written.
        ValueError: the sequence is not open, or a shape does not fit.

    >>> cache = PagedCache((1, 1, 2), blocks=2, block_tokens=2)
    >>> append_tokens(cache, cache.open(), *np.ones((2, 1, 1, 3, 2)))
    >>> cache.length(0), len(cache.free)
    (3, 0)
    """
    layers, _, heads, _, size = cache.keys.shape
    new = (np.asarray(keys), np.asarray(values))
    for name, each in zip(("keys", "values"), new, strict=True):
        fits = each.ndim == 4 and each.shape == new[0].shape
        if not fits or (each.shape[:2], each.shape[3]) != ((layers, heads), size):
            expected = f"expected ({layers}, {heads}, tokens, {size})"
            raise ValueError(f"{name}: {expected}; got {each.shape}")
    cache.reserve(sequence, new[0].shape[2])
    for layer in range(layers):
        cache.write(layer, sequence, new[0][layer], new[1][layer])
    cache.advance(sequence, new[0].shape[2])


# cell: PagedView
class PagedView:
    """Some sequences of a paged cache as the rows of a cache for a decoder.

    >>> cache = PagedCache((1, 1, 2), blocks=4, block_tokens=4)
    >>> view = PagedView(cache, [cache.open()])
    >>> view.room, view.batch, len(view)
    (16, 1, 0)
    """

    def __init__(self, cache: PagedCache, sequences: Sequence[int]) -> None:
        self.cache = cache
        self.sequences = args.integers("sequences", sequences, cache.opened - 1)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.array([self.cache.length(s) for s in self.sequences], np.int64)

    def __len__(self) -> int:
        return int(self.lengths.max())

    @property
    def batch(self) -> int:
        return len(self.sequences)

    def blocks_for(self, tokens: int) -> int:
        """Return the blocks that ``tokens`` more for every row would take."""
        return sum(self.cache.missing(s, tokens) for s in self.sequences)

    @property
    def room(self) -> int:
        free = len(self.cache.free)
        counts = range(1, (free + 1) * self.cache.block_tokens + 1)
        return bisect_left(counts, True, key=lambda t: self.blocks_for(t) > free)

    def require(self, tokens: int) -> None:
        """Raise CacheFull unless every row can take ``tokens`` more."""
        if self.blocks_for(tokens) > len(self.cache.free):
            raise CacheFull(f"no room for {tokens} tokens in {self.batch} rows")


# cell: PagedRows
class PagedRows(PagedView):
    """The view that a decoder writes through; rows may differ in length.

    >>> cache = PagedCache((1, 1, 2), blocks=4, block_tokens=4)
    >>> rows = PagedRows(cache, [cache.open(), cache.open()])
    >>> keys, values = rows.append(0, *np.ones((2, 2, 1, 3, 2)))
    >>> rows.advance([3, 1])
    >>> keys.shape, rows.lengths.tolist()
    ((2, 1, 3, 2), [3, 1])
    """

    def append(
        self, layer: int, keys: Floats, values: Floats
    ) -> tuple[Floats, Floats]:
        """Write (rows, KV heads, tokens, head size); return all, padded."""
        rows, heads, tokens, size = keys.shape
        out = np.zeros((2, rows, heads, len(self) + tokens, size), keys.dtype)
        for row, sequence in enumerate(self.sequences):
            self.cache.reserve(sequence, tokens)
            self.cache.write(layer, sequence, keys[row], values[row])
            found = self.cache.gather(layer, sequence, more=tokens)
            out[:, row, :, : found[0].shape[1]] = found
        return out[0], out[1]

    def advance(self, tokens: int | Sequence[int] | NDArray[np.int64]) -> None:
        """Count tokens as held: one number for all rows, or one for each."""
        counts = np.broadcast_to(np.asarray(tokens, np.int64), (self.batch,))
        for sequence, count in zip(self.sequences, counts.tolist(), strict=True):
            self.cache.advance(sequence, count)
