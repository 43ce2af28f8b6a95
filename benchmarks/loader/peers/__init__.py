"""What each peer needs to store the data and to stream it."""
