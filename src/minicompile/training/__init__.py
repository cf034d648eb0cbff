"""Trains the PyTorch port on the grammar, eager and compiled in turn, to try the safety net on a real run.

It knows the grammar's data and the schedule of the NumPy training. It does not know how a compile is proven, and draws
nothing.
"""
