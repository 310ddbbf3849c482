"""The commands of `jury`, a module each that bears the command's name, and what they share.

A module holds its command with the options, as `command`; `flows.cli` lists them and turns errors into exit codes.
"""
