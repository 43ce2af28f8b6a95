"""The corpus of `make study`: a real pool of spoofed speech among generated, unequal domains.

plan      which generated domains there are, and how large; which generators are held out together
pool      the real pool and its manifest; long bona fide clips cut into pieces, and vocoded
build     both in one folder with one manifest
"""
