"""Replay buffers in Zarr, as UMI and diffusion policy write them."""
