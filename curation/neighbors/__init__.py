"""Neighbours among vectors: k-means and exact nearest neighbours, in blocks of matrix products.

Vectors are float32 or float16 arrays of shape (rows, dims), memory-mapped files included: a block
of rows is read at a time.
"""

from curation.neighbors.kmeans import KMeans, assign, fit_kmeans
from curation.neighbors.nearest import exact_neighbors

__all__ = ["KMeans", "assign", "exact_neighbors", "fit_kmeans"]
