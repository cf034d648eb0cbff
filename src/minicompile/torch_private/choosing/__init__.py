"""How Inductor chose: candidates that were timed, patterns, decompositions, layouts, heuristics, padding.

It knows where in torch each choice is made, and notes it there. It does not know whether the choice was good.
"""
