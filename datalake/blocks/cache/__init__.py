"""The cache of blocks: a directory with a byte budget, shared by all processes of a machine.

cache     `BlockCache`: one maker a block, waiting, counting
key       what a block is a copy of
entry     the file's format; aligned: Arrow streams with aligned buffers
opened    the directory as one process has it open: maps, checks, admissions
room      the budget; victims: what goes first; held: what a process keeps mapped
ranges    locks on bytes of files; leases and claims: who uses and who makes what
"""

from datalake.blocks.cache.cache import BlockCache, CacheStats, TableShare
from datalake.blocks.cache.key import Key
from datalake.blocks.cache.places import default_directory

__all__ = ["BlockCache", "CacheStats", "Key", "TableShare", "default_directory"]
