"""LeRobot datasets, read here and written in `writing`."""
