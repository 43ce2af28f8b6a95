"""Contract suites for those who add a table format or a connector. Needs pytest."""

from datalake.testing.tables import TableContract

__all__ = ["TableContract"]
