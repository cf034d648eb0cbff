"""What of a model runs compiled, what not, and which calls go round it; what no guard holds.

It knows what ran. It does not know whether that was right.
"""
