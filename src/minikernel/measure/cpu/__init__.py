"""How fast a kernel is on a CPU, and what it ran into there: pages, cycles, bytes.

It knows a CPU's counters and memory. It does not know the kernels, which it is given by name.
"""
