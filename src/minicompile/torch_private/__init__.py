"""Every private name of torch's that is used, in one place, and what depends on it.

It knows torch's insides, for each minor version that is supported. It does not know what is concluded from what it
sees, and hands on plain data alone.
"""
