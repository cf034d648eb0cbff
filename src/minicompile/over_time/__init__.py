"""One model under several versions of torch: an environment for each, and the capture that is made in it.

It knows how an environment is found or made, and how something is run in one. It knows nothing of what a capture holds,
and imports no torch: the process that compares versions needs none of its own.
"""
