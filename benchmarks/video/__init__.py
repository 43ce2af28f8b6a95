"""The two sides of `benchmarks/loader_video.py`, each in an interpreter of its own."""
