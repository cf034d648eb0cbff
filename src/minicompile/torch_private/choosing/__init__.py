"""How Inductor chose: candidates that were timed, patterns, decompositions, layouts, heuristics, padding."""
