"""Quality: numbers about each row, and what to drop by them, each with its reason.

Measures are annotators (entry point group `datalake.measures`): they add columns and judge nothing.
`find_drops` judges, by rules on columns.
"""
