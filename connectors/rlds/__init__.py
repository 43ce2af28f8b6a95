"""RLDS as TensorFlow Datasets writes it, read without TensorFlow."""
