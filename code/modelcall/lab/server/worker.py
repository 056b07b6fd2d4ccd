"""The one thread that runs the models, and the bounded queue in front of it.

Requests are served one after the other, in order of arrival: on a CPU, two at once would share the same
cores and memory bus, and each would take twice as long. (Batching, which a GPU needs, is a subject of the
chapter on latency.) Between two tokens, and between two blocks of a prompt, the worker looks whether
anyone still wants the result.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

from modelcall.lab.engine import PREFILL_BLOCK
from modelcall.lab.generation import Step, decode
from modelcall.lab.kvcache import Floats, KVCache
from modelcall.lab.sampling import Sampler
from modelcall.lab.server.errors import ApiError, closing, deadline_exceeded, queue_full
from modelcall.lab.server.job import Delta, Done, Failed, Finish, Job, Reason, Started
from modelcall.lab.server.metrics import Metrics
from modelcall.lab.server.prefixcache import PrefixCache
from modelcall.lab.server.toolcalls import ToolStream
from modelcall.lab.textstream import Piece, TextStream

__all__ = ["Worker"]

log = logging.getLogger("modelcall.server")


class _GivenUpError(Exception):
    """The job was cancelled or its deadline has passed."""


class Worker:
    """The thread and its queue.

    Args:
        metrics: to count in.
        max_waiting: requests that may wait while another runs; one more is refused.
    """

    def __init__(self, metrics: Metrics, max_waiting: int = 16) -> None:
        self.metrics = metrics
        self.max_waiting = max_waiting
        self.prefixes = PrefixCache()
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._running: Job | None = None
        self._closing = False
        self._recent_s = 0.5  # a running mean of how long a job takes, for Retry-After
        self._thread = threading.Thread(target=self._loop, name="modelcall-worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            ApiError: the queue is full, or the server is shutting down.
        """
        with self._changed:
            if self._closing:
                raise closing()
            self._queue = deque(waiting for waiting in self._queue if waiting.cancelled is None)
            # One that can start at once does not wait.
            if len(self._queue) >= self.max_waiting + (self._running is None):
                raise queue_full(len(self._queue), max(1, round(self._recent_s * len(self._queue))))
            self._queue.append(job)
            self._count()
            self._changed.notify()

    def refuse(self) -> None:
        """Take no more jobs, and fail those that wait."""
        with self._changed:
            self._closing = True
            waiting, self._queue = self._queue, deque()
            self._count()
            self._changed.notify()
        for job in waiting:
            job.outbox.put(Failed(closing()))

    def close(self) -> None:
        """Refuse, give up what runs, and wait for the thread to end."""
        self.refuse()
        with self._changed:
            if self._running is not None:
                self._running.cancel("shutdown")
        self._thread.join()

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        with self._changed:
            return self._running is None and not self._queue

    def counts(self) -> tuple[int, int]:
        """Return how many jobs run and how many wait."""
        with self._changed:
            return int(self._running is not None), len(self._queue)

    def _count(self) -> None:
        self.metrics.set("modelcall_requests_running", float(self._running is not None))
        self.metrics.set("modelcall_requests_waiting", float(len(self._queue)))

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._running = None
                self._count()
                self._changed.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    return
                job = self._running = self._queue.popleft()
                self._count()
            began = time.monotonic()
            try:
                self._run(job)
            except _GivenUpError:
                self.metrics.add("modelcall_cancelled_total", reason=job.cancelled or "deadline")
                expired = job.cancelled in (None, "deadline")
                job.outbox.put(Failed(deadline_exceeded(job.deadline_ms) if expired else closing()))
            except Exception as error:  # the thread must outlive whatever a request does to it
                log.exception("a request failed")
                message = f"the server failed: {type(error).__name__}"
                job.outbox.put(Failed(ApiError(500, message, kind="server_error", code="internal_error")))
            self._recent_s += 0.2 * (time.monotonic() - began - self._recent_s)

    def _check(self, job: Job) -> None:
        if job.cancelled is not None or (job.deadline_s is not None and time.monotonic() > job.deadline_s):
            raise _GivenUpError

    def _run(self, job: Job) -> None:
        self._check(job)
        job.outbox.put(Started())
        prompt_tokens = cached_tokens = completion_tokens = 0
        first = True
        for at, prompt in enumerate(job.prompts):
            capacity = min(len(prompt) + job.max_tokens, job.model.window)
            cache, cached = self.prefixes.start(job.model.name, job.model.decoder, prompt, capacity)
            logits = self._prefill(job, prompt[cached:], cache)
            prompt_tokens += len(prompt)
            cached_tokens += cached
            for choice in range(job.n):
                index = at * job.n + choice
                last = choice == job.n - 1
                own = cache if last else cache.prefix(len(prompt), capacity=capacity)
                tokens = self._reply(job, index, logits, own, completion_tokens, first=first)
                first = False
                completion_tokens += len(tokens)
            # The last token was not read back, so the cache ends before it.
            self.prefixes.keep(job.model.name, [*prompt, *tokens][: len(cache)], cache)
        self.metrics.add("modelcall_tokens_total", prompt_tokens, kind="prompt")
        self.metrics.add("modelcall_tokens_total", cached_tokens, kind="cached")
        self.metrics.add("modelcall_tokens_total", completion_tokens, kind="completion")
        self.metrics.set("modelcall_prefix_cache_bytes", float(self.prefixes.nbytes))
        job.outbox.put(Done(prompt_tokens, cached_tokens, completion_tokens))

    def _prefill(self, job: Job, tokens: list[int], cache: KVCache) -> Floats:
        for start in range(0, len(tokens), PREFILL_BLOCK):
            self._check(job)
            logits, _ = job.model.decoder.prefill(tokens[start : start + PREFILL_BLOCK], cache)
        return logits

    def _reply(
        self, job: Job, index: int, logits: Floats, cache: KVCache, before: int, *, first: bool
    ) -> list[int]:
        """Generate one choice and return its tokens; ``before`` were generated for others of the job."""
        text = TextStream([*job.stop, *job.blocked])
        tools = ToolStream(job.tools)
        tokens: list[int] = []
        held: list[Step] = []
        reason: Reason = "stop"
        began = 0.0

        def show(piece: Piece, *, end: bool = False) -> None:
            parts = tools.feed(piece.text) + (tools.finish() if end else [])
            steps = tuple(held[: piece.tokens])
            del held[: piece.tokens]
            if parts or steps:
                shown = steps if job.top is not None else ()
                job.outbox.put(Delta(index, tuple(parts), shown, before + len(tokens)))

        steps = decode(
            job.model.decoder,
            logits,
            cache,
            Sampler(job.sampling(index)),
            max_tokens=job.max_tokens,
            end_tokens=job.end_tokens,
            top=job.top,
            mask=None if job.mask is None else job.mask(),
        )
        for step in steps:
            if not tokens:
                began = time.monotonic()
                if first:
                    self.metrics.observe("modelcall_time_to_first_token_seconds", began - job.arrived_s)
            self.metrics.add("modelcall_decode_steps_total")
            tokens.append(step.token)
            if step.finish == "stop":
                break
            held.append(step)
            piece = text.feed(job.model.tokenizer.pieces[step.token])
            if piece.stopped is not None:
                reason = "stop" if piece.stopped in job.stop else "content_filter"
                show(piece, end=True)
                break
            show(piece)
            if step.finish == "length":
                reason = "length"
                break
            self._check(job)
        show(text.finish(), end=True)
        if reason == "stop" and tools.complete:
            reason = "tool_calls"
        if len(tokens) > 1:
            mean_s = (time.monotonic() - began) / (len(tokens) - 1)
            self.metrics.observe("modelcall_time_per_output_token_seconds", mean_s)
        job.outbox.put(Finish(index, reason))
        return tokens
