"""A kernel of Inductor's explained from its capture.

It knows how C++ and Triton are read, line by line. It knows nothing that is not in the capture, and runs no kernel.
"""
