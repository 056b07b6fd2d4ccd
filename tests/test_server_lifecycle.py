"""Queues, deadlines, clients that hang up at every stage, shutting down."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.scripted import scripted_model
from tests.serving import Running, events, serving, text_of

from modelcall.__main__ import main
from modelcall.lab import models
from modelcall.lab.model_errors import ModelError
from modelcall.lab.server import house_server
from modelcall.lab.server.prefixcache import PrefixCache

CANCELLED = 'modelcall_cancelled_total{reason="disconnect"}'
STEPS = "modelcall_decode_steps_total"


def raw_request(server: Running, body: bytes, *, whole: bool = True) -> socket.socket:
    """Send a request by hand and leave the connection open."""
    host, port = server.url.removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), timeout=5)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    sock.sendall((head + "Content-Type: application/json\r\n\r\n").encode())
    sock.sendall(body if whole else body[: len(body) // 2])
    return sock


def body(text: str, *, stream: bool) -> bytes:
    """A request's body."""
    flag = "true" if stream else "false"
    return (
        f'{{"model": "scripted", "messages": [{{"role": "user", "content": "{text}"}}], "stream": {flag}, '
        '"temperature": 0, "max_tokens": 400}'
    ).encode()


@pytest.mark.parametrize("stream", [True, False])
def test_hanging_up_stops_the_decode_loop(stream: bool) -> None:
    with serving(step_s=0.01) as server:
        sock = raw_request(server, body("long", stream=stream))
        server.until(lambda: server.metric(STEPS) >= 5, "the first tokens")
        sock.close()
        server.until(lambda: server.metric(CANCELLED) == 1, "the cancellation")
        steps = server.metric(STEPS)
        assert steps < 300
        time.sleep(0.1)
        assert server.metric(STEPS) == steps
        assert server.chat().json()["choices"][0]["message"]["content"] == "Hello there."


def test_hanging_up_in_the_queue_or_in_the_body() -> None:
    with serving(step_s=0.005) as server:
        first = raw_request(server, body("long", stream=True))
        server.until(lambda: server.metric("modelcall_requests_running") == 1, "the first to run")
        second = raw_request(server, body("hi", stream=False))
        server.until(lambda: server.metric("modelcall_requests_waiting") == 1, "the second to wait")
        second.close()
        half = raw_request(server, body("hi", stream=False), whole=False)
        half.close()
        raw_request(server, b"").close()
        time.sleep(0.05)
        first.close()
        server.until(lambda: server.metric(CANCELLED) == 2, "both to be given up")
        # Nothing was generated for those who left.
        assert server.chat().json()["usage"]["completion_tokens"] == 13


def test_hanging_up_after_the_end_is_no_cancellation() -> None:
    with serving() as server:
        for stream in (True, False):
            sock = raw_request(server, body("hi", stream=stream))
            data = b""
            while b"[DONE]" not in data and b'"usage"' not in data:
                data += sock.recv(65536)
            sock.close()
        time.sleep(0.1)
        assert server.metric(CANCELLED) == 0


def test_a_full_queue_says_when_to_come_back() -> None:
    with serving(step_s=0.01, max_waiting=1) as server:
        running = raw_request(server, body("long", stream=True))
        server.until(lambda: server.metric("modelcall_requests_running") == 1, "the first to run")
        waiting = raw_request(server, body("hi", stream=True))
        server.until(lambda: server.metric("modelcall_requests_waiting") == 1, "the second to wait")
        for stream in (True, False):
            answer = server.chat(stream=stream)
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
            assert answer.json()["error"]["code"] == "queue_full"
            assert answer.json()["error"]["type"] == "rate_limit_error"
        health = server.client.get("/health").json()
        assert (health["running"], health["waiting"]) == (1, 1)
        running.close()
        server.until(lambda: server.metric("modelcall_requests_waiting") == 0, "the queue to empty")
        waiting.close()
        assert server.chat().status_code == 200


def test_a_place_in_the_queue_is_free_when_its_owner_leaves() -> None:
    with serving(step_s=0.01, max_waiting=1) as server:
        running = raw_request(server, body("long", stream=True))
        server.until(lambda: server.metric("modelcall_requests_running") == 1, "the first to run")
        waiting = raw_request(server, body("hi", stream=True))
        server.until(lambda: server.metric("modelcall_requests_waiting") == 1, "the second to wait")
        question = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}

        def status() -> int:
            """504 for one that was queued and waited in vain, 429 for one that was refused."""
            soon = {"X-Request-Deadline-Ms": "50"}
            return server.client.post("/v1/chat/completions", json=question, headers=soon).status_code

        assert status() == 429
        waiting.close()
        server.until(lambda: status() == 504, "the place to be free", 2.0)
        assert server.metric("modelcall_requests_running") == 1
        running.close()


def test_two_clients_at_once_get_what_one_gets() -> None:
    with serving(step_s=0.001) as server:
        questions = ["hi", "utf8", "stop", "order"] * 4

        def ask(at: int) -> str:
            if at % 2:
                return text_of(events(server.chat(questions[at], stream=True).text))
            return str(server.chat(questions[at]).json()["choices"][0]["message"]["content"])

        alone = [ask(i) for i in range(len(questions))]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(len(questions)))) == alone


def test_a_deadline_stops_the_loop() -> None:
    with serving(step_s=0.01) as server:
        header = {"X-Request-Deadline-Ms": "150"}
        request = {"model": "scripted", "messages": [{"role": "user", "content": "long"}]}
        began = time.monotonic()
        answer = server.client.post("/v1/chat/completions", json=request, headers=header)
        assert answer.status_code == 504 and answer.json()["error"]["code"] == "deadline_exceeded"
        assert answer.headers["x-should-retry"] == "false" and 0.14 < time.monotonic() - began < 1.0
        server.until(
            lambda: server.metric('modelcall_cancelled_total{reason="deadline"}') == 1, "the loop to stop"
        )
        # In a stream the status is out already; the error is the last event.
        streamed = server.client.post("/v1/chat/completions", json=request | {"stream": True}, headers=header)
        assert streamed.status_code == 200 and "deadline_exceeded" in streamed.text.split("\n\n")[-2]
        assert "[DONE]" not in streamed.text
        quick = server.client.post(
            "/v1/chat/completions",
            json=request | {"max_tokens": 2},
            headers={"X-Request-Deadline-Ms": "5000"},
        )
        assert quick.status_code == 200


def test_a_deadline_counts_the_time_in_the_queue() -> None:
    with serving(step_s=0.01) as server:
        first = raw_request(server, body("long", stream=True))
        server.until(lambda: server.metric("modelcall_requests_running") == 1, "the first to run")
        answer = server.client.post(
            "/v1/chat/completions",
            json={"model": "scripted", "messages": [{"role": "user", "content": "hi"}]},
            headers={"X-Request-Deadline-Ms": "100"},
        )
        assert answer.status_code == 504
        first.close()


def test_shutting_down_refuses_what_waits_and_ends_what_runs() -> None:
    with serving(step_s=0.01, grace_s=0.1) as server, ThreadPoolExecutor(3) as pool:
        running = pool.submit(server.chat, "long", stream=True)
        server.until(lambda: server.metric("modelcall_requests_running") == 1, "the first to run")
        waiting = pool.submit(server.chat, "hi")
        server.until(lambda: server.metric("modelcall_requests_waiting") == 1, "the second to wait")
        began = time.monotonic()
        server.server.should_exit = True
        assert waiting.result(5).status_code == 503
        assert waiting.result().json()["error"]["code"] == "shutting_down"
        assert "shutting_down" in running.result(5).text.split("\n\n")[-2]
        assert time.monotonic() - began < 3
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", trust_env=False)


def test_a_short_reply_is_finished_in_the_grace() -> None:
    with serving(step_s=0.02, grace_s=5) as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.chat, "hi")
        server.until(lambda: server.metric(STEPS) >= 1, "the first token")
        server.server.should_exit = True
        assert running.result(5).json()["choices"][0]["message"]["content"] == "Hello there."


def test_an_error_inside_the_model_is_a_500_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server:
        decoder = server.server.app.served["scripted"].model.decoder
        broken = decoder.forward
        decoder.forward = lambda *_, **__: 1 / 0  # type: ignore[method-assign,assignment]
        for stream in (True, False):
            answer = server.chat("something new", stream=stream)
            # A stream that has begun has sent its status: the error is then its last event.
            last = answer.text.strip().rpartition("data: ")[2]
            error = json.loads(last)["error"]
            assert error["code"] == "internal_error", answer.text
            assert "ZeroDivisionError" in error["message"]
        decoder.forward = broken  # type: ignore[method-assign]
        assert server.chat().status_code == 200
    assert "a request failed" in caplog.text


def test_house_server_serves_models_at_hand_and_leaves_nothing_behind() -> None:
    before = threading.active_count()
    with house_server(
        loaded=[scripted_model({"hi": b"ho"}), scripted_model({"hi": b"hu"}, name="other")]
    ) as url:
        assert url.startswith("http://127.0.0.1:")
        for name, text in (("scripted", "ho"), ("other", "hu")):
            request = {"model": name, "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
            answer = httpx.post(url + "/v1/chat/completions", json=request, trust_env=False)
            assert answer.json()["choices"][0]["message"]["content"] == text
    assert threading.active_count() == before
    with pytest.raises(ModelError, match="no model 'gpt-9'; there are house"), house_server("gpt-9"):
        pass


def test_the_prefix_cache_keeps_models_apart_and_forgets_the_oldest() -> None:
    decoder = scripted_model({}).decoder
    prefixes = PrefixCache(max_entries=2)
    for name, prompt in (("a", [1, 2, 3, 4]), ("b", [1, 2, 9]), ("a", [1, 2, 3, 4, 5])):
        cache, _ = prefixes.start(name, decoder, prompt, 8)
        decoder.prefill(prompt[len(cache) :], cache)
        prefixes.keep(name, prompt, cache)
    # The first entry was absorbed by the one that begins with it; "b" never saw a 3.
    assert prefixes.start("a", decoder, [1, 2, 3, 4, 5, 6], 8)[1] == 5
    assert prefixes.start("b", decoder, [1, 2, 3, 4], 8)[1] == 2
    assert prefixes.start("c", decoder, [1, 2, 3, 4], 8)[1] == 0
    cache, _ = decoder.prefill([7, 7])
    prefixes.keep("a", [7, 7], cache)
    assert prefixes.start("a", decoder, [1, 2, 3, 4], 8)[1] == 0
    prefixes.max_bytes = 0
    prefixes.keep("a", [8, 8], cache)
    assert prefixes.nbytes == 0


def test_it_binds_to_loopback() -> None:
    with serving() as server:
        assert server.url.startswith("http://127.0.0.1:")


def test_serve_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
        assert "cannot bind to 127.0.0.1" in capsys.readouterr().err
    monkeypatch.setenv("MODELCALL_CACHE", str(tmp_path))
    assert main(["serve", "--model", "smollm2", "--port", "0"]) == 2
    assert "get it with: modelcall fetch smollm2" in capsys.readouterr().err
    for wrong in (["--port", "70000"], ["--max-waiting", "-1"], ["--block", ""], ["--model", "gpt-9"]):
        with pytest.raises(SystemExit) as caught:
            main(["serve", *wrong])
        assert caught.value.code == 2 and wrong[0] in capsys.readouterr().err


SERVE = """
import sys
sys.path[:0] = sys.argv[1:]
from modelcall.__main__ import main
from modelcall.lab import models
from tests.scripted import scripted_model
models.load = lambda name, dtype: scripted_model({"hi": b"ho"}, name=name)
sys.exit(main(["serve", "--port", "0"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ on Windows")
def test_the_command_serves_until_it_is_interrupted() -> None:
    root = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", SERVE, root, *(path for path in sys.path if path.endswith("code"))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=os.environ
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"serving house at (http://127\.0\.0\.1:\d+)/v1 \(Ctrl-C stops\)\n", line)
        assert found, line + process.stderr.read()
        with httpx.Client(trust_env=False) as client:
            end = time.monotonic() + 10
            while True:
                try:
                    assert client.get(found[1] + "/health").json()["models"] == ["house"]
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < end
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0 and "Traceback" not in errors, errors


def test_missing_and_damaged_house_weights_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / "config.json"))):
        models.load("house", folder=tmp_path)
