"""A study: a grid of trainings, and what follows from their results."""
