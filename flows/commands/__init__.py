"""Commands of `jury`, and their shared code.

`flows.cli` lists the commands with their modules and functions, and turns errors into exit codes.
"""
