"""An elastic AI data lake: tables, lake, ingest and streaming."""
