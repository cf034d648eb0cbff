"""Which kernel `softmax` launches on a GPU: the choice, and a table for each device that was tuned.

It knows shapes, dtypes and what tuning found. It does not know how the kernels compute, and tunes nothing.
"""
