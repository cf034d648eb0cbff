"""What Dynamo does: which functions it is asked for and compiles, why again, and what it writes in their place.

It knows frames and entries. It does not know what becomes of a graph.
"""
