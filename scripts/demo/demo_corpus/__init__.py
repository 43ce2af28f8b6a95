"""The corpus of `make demo`: real human speech and ten real generators, through package registries.

debian       fetches Debian packages and unpacks them; installs nothing, needs no root
recordings   the human speech: which packages, which files, which speakers
prompts      what a generator is asked to say
speech       generators that speak a text
vocoders     generators that analyse and re-synthesise a recording
channel      level, sample rate and coding of a source, the same for both labels
plan         which domains there are, and how large
build        makes what is missing of a corpus, and its manifest
"""
