"""What the `jury` command does, a module for each kind of work; `flows.cli` names the commands."""
