"""``modelcall serve``: run the house server until it is interrupted."""

from __future__ import annotations

import argparse
import contextlib
import sys

HELP = "serve the book's models with OpenAI's protocol, on this machine only unless told otherwise"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelcall serve``."""
    parser.add_argument(
        "--model",
        action="append",
        choices=["house", "house-base", "house-draft", "smollm2"],
        help="a model to serve; give it again for more (default: house)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8001, help="port, 0 for a free one (default: 8001)")
    parser.add_argument(
        "--dtype", choices=["float32", "float64"], default="float32", help="of the arithmetic"
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=16,
        metavar="N",
        help="requests that may wait; the next gets 429 (16)",
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="TEXT",
        help="end a reply before TEXT, with content_filter",
    )
    parser.set_defaults(parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say and return the exit status."""
    from modelcall.lab import models, server
    from modelcall.lab.model_errors import ModelError

    if not 0 <= arguments.port <= 65535:
        arguments.parser.error(f"--port: expected 0 to 65535, found {arguments.port}")
    if arguments.max_waiting < 0:
        arguments.parser.error(f"--max-waiting: expected 0 or more, found {arguments.max_waiting}")
    if not arguments.host.strip():  # to bind to nothing would bind to every address of the machine
        arguments.parser.error("--host: expected an address, found none")
    if "" in arguments.block:
        arguments.parser.error("--block: expected some text, found none")
    try:
        sock = server.listen(arguments.host, arguments.port)
    except OSError as error:
        reason = error.strerror or error
        print(f"modelcall serve: cannot bind to {arguments.host}:{arguments.port}: {reason}", file=sys.stderr)
        return 2
    with sock:
        try:
            loaded = [
                models.load(name, arguments.dtype) for name in dict.fromkeys(arguments.model or ["house"])
            ]
        except ModelError as error:
            print(f"modelcall serve: {error}", file=sys.stderr)
            return 2
        app = server.make_app(loaded, max_waiting=arguments.max_waiting, blocked=arguments.block)
        host, port = sock.getsockname()[:2]
        names = ", ".join(app.served)
        print(
            f"serving {names} at http://{f'[{host}]' if ':' in host else host}:{port}/v1 (Ctrl-C stops)",
            flush=True,
        )
        # Once it has shut down, uvicorn raises the signal again that told it to.
        with contextlib.suppress(KeyboardInterrupt):
            server.Server(app).run([sock])
    return 0
