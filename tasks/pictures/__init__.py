"""Pictures: decoded, checked, made fit to be judged."""
