"""The ledger: questions and replies of runs, written, read, reused, and copied to a bucket."""
