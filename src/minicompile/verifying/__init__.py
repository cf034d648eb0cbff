"""What was generated runs beside the graph that it was generated from: which line and which buffer has whose values.

It knows torch and evaluates Triton's language in it, whole grids at a time. It draws no conclusion, and words nothing:
its product, `Ties` of `ties.py`, is plain data that lies beside a lowered graph in the `Watched`.
"""
