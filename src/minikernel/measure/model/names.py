"""What the rungs are called, from the bottom of the ladder to its top."""

EAGER, GRAPH, ONE = "eager", "graph", "one"
COMPILED = {"compile": "default", "compile-reduce-overhead": "reduce-overhead", "compile-max-autotune": "max-autotune"}
MAX_AUTOTUNE = "compile-max-autotune"
OURS = (GRAPH, ONE)
RUNGS = (EAGER, *COMPILED, *OURS)
