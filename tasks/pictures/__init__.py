"""Pictures: decoding, checks, and preparation for the judge."""
