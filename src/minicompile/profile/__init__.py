"""Measures what torch.compile gains and costs: times of each mode, and where a compiled call's time goes.

It knows how to time calls and take one apart. It does not know how the compiled code came about, and words nothing.
"""
