"""Somebody else's code in a process with limits, which ends with the lab, and with it all that it started.

It knows processes, limits and what a process may see. It does not know what is run there, and judges no result.
"""
