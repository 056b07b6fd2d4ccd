"""The subcommands of ``modelcall``, one module each.

A subcommand's module has ``HELP``, one line; ``configure``, which adds its arguments to a parser; and
``run``, which does the work and returns the exit status. What is slow to import is imported in ``run``.
"""
