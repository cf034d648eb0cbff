"""The softmax as operators of torch: eager and compiled, with derivatives, batches, types and shards.

It knows what torch asks of an operator. It does not know how a kernel computes.
"""
