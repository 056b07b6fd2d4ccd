"""What clients do to a connection: slow, cut, compressed, malformed, or gone; the server serves on."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serving import Running, serving

from modelcall.lab.kvcache import Floats
from modelcall.lab.server import app, listen

CANCELLED = 'modelcall_cancelled_total{reason="disconnect"}'
POST = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def body(text: str = "hi", **fields: Any) -> bytes:
    """A request's body."""
    message = {"role": "user", "content": text}
    return json.dumps({"model": "scripted", "messages": [message], "temperature": 0} | fields).encode()


def connect(server: Running) -> socket.socket:
    """A bare connection."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def answer(server: Running, data: bytes) -> tuple[int, bytes]:
    """Send bytes and return the status and all that follows, until the server closes the connection."""
    received = b""
    with connect(server) as sock:
        sock.sendall(data)
        while not received.endswith(b"<end>"):
            try:
                received += sock.recv(65536) or b"<end>"
            except ConnectionResetError:  # the server has closed on what it did not want to read
                received += b"<end>"
    return int(received.split(b" ", 2)[1]), received


def post(data: bytes, *headers: str) -> bytes:
    """A whole request, after which the connection is to be closed."""
    lines = "".join(line + "\r\n" for line in (*headers, "Connection: close"))
    return (POST + lines + "\r\n").encode() + data


def chunked(*parts: bytes) -> bytes:
    """A body in chunks."""
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One server for most of these."""
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def serves_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each of these the next request is answered."""
    yield
    if "server" in request.fixturenames:
        running: Running = request.getfixturevalue("server")
        assert running.chat().json()["choices"][0]["message"]["content"] == "Hello there."


def test_an_answer_does_not_wait_for_an_acknowledgement(server: Running) -> None:
    """Head and body leave in two packets; with Nagle's algorithm the second would wait 40 ms."""
    with listen() as sock:
        assert sock.proto == socket.IPPROTO_TCP
    server.chat()
    connections = server.server.server_state.connections
    sockets = [connection.transport.get_extra_info("socket") for connection in connections]  # type: ignore[union-attr]
    assert sockets and all(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for sock in sockets)


def test_a_body_in_chunks_without_a_length(server: Running) -> None:
    data = body()
    status, received = answer(server, post(chunked(data[:20], data[20:]), "Transfer-Encoding: chunked"))
    assert status == 200 and b"Hello there." in received


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: -5",),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: five",),
        ("Transfer-Encoding: chunked",),  # and then a body that is not in chunks
        ("X: " + "a" * 200_000,),
        ("Transfer-Encoding: gzip",),
    ],
    ids=lambda headers: headers[-1][:30],
)
def test_heads_that_are_wrong(server: Running, headers: tuple[str, ...]) -> None:
    status, received = answer(server, post(b"not hex\r\n", *headers))
    assert 400 <= status <= 501 and status != 500 and b"Traceback" not in received


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("HEAD /v1/models", 200),
        ("HEAD /v1/chat/completions", 405),
        ("OPTIONS /v1/chat/completions", 405),
        ("BREW /health", 405),
        ("OPTIONS *", 404),
        ("GET /v1/models/", 404),  # no redirect to wherever the Host header says
        ("POST /v1/chat/completions/", 404),
        ("GET /v1/models/%ff%00%0d%0aX-Evil:%201", 404),
        ("GET /../../etc/passwd", 404),
        ("GET /" + "a" * 30_000, 404),
    ],
    ids=lambda value: str(value)[:40],
)
def test_methods_and_paths(server: Running, line: str, status: int) -> None:
    found, received = answer(server, f"{line} HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n".encode())
    assert found == status
    head, _, rest = received.removesuffix(b"<end>").partition(b"\r\n\r\n")
    assert b"location" not in head.lower() and b"X-Evil" not in head
    if line.startswith("HEAD"):
        assert rest == b""
    elif status != 200:
        assert set(json.loads(rest)["error"]) == {"message", "type", "param", "code"}
    assert (b"allow: " in head.lower()) is (status == 405)


def test_a_compressed_body_is_refused(server: Running) -> None:
    found = server.client.post(
        "/v1/chat/completions",
        content=body(),
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert found.status_code == 415 and found.json()["error"]["code"] == "unsupported_media_type"
    assert "'gzip'" in found.json()["error"]["message"]


def test_of_a_key_that_stands_twice_the_last_counts(server: Running) -> None:
    data = b'{"max_tokens": 1, "model": "other", ' + body(max_tokens=3)[1:]
    found = server.client.post(
        "/v1/chat/completions", content=data, headers={"content-type": "application/json"}
    )
    assert found.json()["choices"][0]["message"]["content"] == "Hel"


def test_a_slow_body_holds_nobody_up_and_is_given_up(
    monkeypatch: pytest.MonkeyPatch, server: Running
) -> None:
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", 0.3)
    with connect(server) as sock:
        sock.sendall((POST + "Content-Length: 500\r\n\r\n").encode() + body()[:10])
        began = time.monotonic()
        assert server.chat().status_code == 200 and time.monotonic() - began < 0.3
        received = b""
        while data := sock.recv(65536):  # to the end: the server closes
            received += data
    assert received.startswith(b"HTTP/1.1 408 ") and b"body_timeout" in received
    assert time.monotonic() - began >= 0.25


def test_an_announced_length_beyond_all_bounds(monkeypatch: pytest.MonkeyPatch, server: Running) -> None:
    """Such a body is read for a while, so that honest clients see the answer, and then no further."""
    monkeypatch.setattr(app, "DRAIN_MAX_BYTES", 3 << 20)
    with connect(server) as sock:
        sock.sendall((POST + f"Content-Length: {10**18}\r\n\r\n").encode())
        with pytest.raises((ConnectionError, TimeoutError)):
            for _ in range(1000):
                sock.sendall(b"x" * 65536)
    assert server.metric('modelcall_requests_total{path="/v1/chat/completions",status="413"}') >= 1


def test_many_idle_connections_hold_nobody_up(server: Running) -> None:
    idle = [connect(server) for _ in range(100)]
    assert server.chat().status_code == 200
    for sock in idle:
        sock.close()


@pytest.mark.parametrize("sent", [0, 30, len(POST) + 40])
def test_a_connection_that_is_reset(server: Running, sent: int) -> None:
    sock = connect(server)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(post(body(), "Content-Length: 500")[:sent])
    sock.close()


@pytest.mark.parametrize("leave", ["hang up", "deadline"])
def test_a_prompt_is_not_read_to_its_end_for_nobody(leave: str) -> None:
    """Between two blocks of a prompt the worker looks whether anyone still waits."""
    with serving(context=2048) as server:
        decoder = server.server.app.served["scripted"].model.decoder
        forward, blocks = decoder.forward, []

        def slow(tokens: Any, *args: Any, **named: Any) -> Floats:
            blocks.append(len(tokens[0]))
            time.sleep(0.05)
            return forward(tokens, *args, **named)

        decoder.forward = slow  # type: ignore[method-assign]
        with connect(server) as sock:
            data = body("y" * 1900, max_tokens=5)
            extra = ["X-Request-Deadline-Ms: 120"] if leave == "deadline" else []
            sock.sendall(post(data, f"Content-Length: {len(data)}", *extra))
            if leave == "deadline":
                assert sock.recv(65536).startswith(b"HTTP/1.1 504 ")
            else:
                server.until(lambda: len(blocks) >= 2, "the first blocks")
        reason = "deadline" if leave == "deadline" else "disconnect"
        server.until(
            lambda: server.metric(f'modelcall_cancelled_total{{reason="{reason}"}}') == 1, "the cancellation"
        )
        assert len(blocks) < 12 and server.metric("modelcall_decode_steps_total") == 0
        decoder.forward = forward  # type: ignore[method-assign]
        assert server.chat().status_code == 200
