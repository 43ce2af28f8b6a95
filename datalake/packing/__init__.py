"""Packing: items of many lengths into sequences of one budget. Pure; knows nothing of tables."""
