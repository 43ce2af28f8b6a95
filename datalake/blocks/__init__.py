"""Blocks: rows of a table on this machine, fetched once, mapped into memory, shared by all.

cache    a directory of blocks with a byte budget, safe for many processes
slots    decoded rows, each written once where its place is known beforehand
origin   reading from the table's store: requests within a budget, waiting out refusals
filling  a table's blocks brought before they are asked for
reader   `TableReader`: columns by row, from mapped files or from cached blocks
"""
