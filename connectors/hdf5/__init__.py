"""Connectors of demonstrations in HDF5: robomimic, LIBERO and ALOHA."""
