"""Video: what a file holds, and its frames. Knows nothing of episodes or tables."""
