"""The report of a study: figures, and a page that a person reads."""
