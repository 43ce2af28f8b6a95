"""Ingest of robot episodes."""
