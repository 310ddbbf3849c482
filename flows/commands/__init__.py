"""Commands of `jury`, one module per command, and their shared code.

Each module holds its command with the options, as `command`. `flows.cli` lists them and turns errors into exit codes.
"""
