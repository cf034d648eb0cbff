"""How Inductor chose: candidates that were timed, patterns, decompositions, layouts, heuristics, padding.

It knows where torch decides, and neither in which words a decision is told nor to which line it belongs.
"""
