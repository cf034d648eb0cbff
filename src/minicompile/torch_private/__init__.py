"""Every private name of torch's that the lab leans on, and what stands in for a GPU that is not here.

It knows which version of torch has which name, and nothing of what a compile is watched or measured for.
"""
