"""What the rungs are called, from the bottom of the ladder to its top."""

# what artefacts hold and pages word: older records would not be found under another name
EAGER, COMPILE, GRAPH, ONE = "eager", "compile", "graph", "one"
COMPILED = {COMPILE: "default", "compile-reduce-overhead": "reduce-overhead", "compile-max-autotune": "max-autotune"}
MAX_AUTOTUNE = "compile-max-autotune"
OURS = (GRAPH, ONE)
RUNGS = (EAGER, *COMPILED, *OURS)
