"""``modelcall`` on the command line: finds the subcommand and hands over to it.

Each subcommand is a module of ``modelcall.cli`` (see there), entered in ``COMMANDS``. Exit status 0 is
success, 1 is a finding, such as a ledger entry that does not hold, and 2 is a mistake in the call.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from modelcall import __version__
from modelcall.cli import fetch, ledger, serve

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, ModuleType] = {"ledger": ledger, "fetch": fetch, "serve": serve}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status; without one, print the help.

    Raises:
        SystemExit: what argparse raises for ``--help``, ``--version`` and mistakes.

    >>> main(["ledger", "show", "B-nothing"])
    2
    """
    parser = argparse.ArgumentParser(prog="modelcall", description="Tools of the textbook The Model Call.")
    parser.add_argument("--version", action="version", version=f"modelcall {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, module in COMMANDS.items():
        module.configure(commands.add_parser(name, help=module.HELP, description=module.HELP))
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    try:
        status = int(COMMANDS[arguments.command].run(arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"modelcall {arguments.command}: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
