"""The loader against its peers: the same data, the same work, the same session."""
