"""What the rungs are called, from the bottom of the ladder to its top."""

EAGER, COMPILE, GRAPH, ONE = "eager", "compile", "graph", "one"
COMPILED = {COMPILE: "default", "compile-reduce-overhead": "reduce-overhead", "compile-max-autotune": "max-autotune"}
MAX_AUTOTUNE = "compile-max-autotune"
OURS = (GRAPH, ONE)
RUNGS = (EAGER, *COMPILED, *OURS)
