"""From a `Watched` to a capture: what became of each node, and which lines of which texts belong together.

Pure functions over plain data. It knows no torch, and runs where none is installed; it words nothing.
"""
