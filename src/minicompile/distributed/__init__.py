"""Measures patterns of distributed training on real processes: their speed, and what they send and hold.

It knows how each pattern divides a model, and counts its bytes. It does not know which one is to be preferred: the
survey says so.
"""
