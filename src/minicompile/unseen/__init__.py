"""What an `explore` cannot capture, found so that its page can say so: earlier compiles, other processes, AOT.

It knows by which doors a compile can pass the hooks, and what a started process leaves on disk. It does not know what a
compile made, which belongs to `watching`, nor how the page words it.
"""
