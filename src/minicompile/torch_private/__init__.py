"""All that the capture knows of torch's private side, kept in one place.

names         the table of private names, each with what it is for; the tests look each one up
session       one compile with every hook in, and what it leaves behind, as plain data
line_hooks    which ATen node each line of a kernel comes from
calls         which scheduler nodes each kernel call runs
decisions     every fusion, taken or refused
snapshot      what the live Inductor graph holds
simulated     the stand-in for a GPU
triton_kernels  each Triton kernel compiled to TTIR, PTX and machine code
"""
