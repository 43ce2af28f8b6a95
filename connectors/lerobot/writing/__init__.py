"""Writers of LeRobot datasets: what an episode set holds, as the library `lerobot` opens it."""
