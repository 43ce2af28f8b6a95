"""Tests of the cache of blocks."""
