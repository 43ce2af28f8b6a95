"""Connectors of speech corpora: one file a corpus, with its origin, layout and quirks."""
