"""What runs: one chain (`pipeline`), one thin module a flow, and the `jury` command."""
