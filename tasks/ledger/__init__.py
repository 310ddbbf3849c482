"""The ledger: what was asked and answered, written, read, reused, and kept in a bucket."""
