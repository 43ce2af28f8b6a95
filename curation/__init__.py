"""Data-centric curation: select, weigh, audit and judge."""
