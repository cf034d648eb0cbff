"""The addresses that each kernel call touches, by the indices of its loops, counted while Inductor's graph is alive.

It knows loop bodies and layouts; of the kernels' text it knows only which operations have a line in it.
"""
