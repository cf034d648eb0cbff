"""From what the hooks saw of a compile to a capture: which line and buffer came from which node, and what became of it.

It knows how a model is lowered, from its source to each line of each kernel, as pure functions over plain data. It does
not know torch, which it runs without, nor how a finding is worded.
"""
