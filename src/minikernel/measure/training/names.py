"""What the rungs of a training step are called, and what is asked of the one launch."""

EAGER, COMPILE, GRAPH_OF_COMPILED, ONE = "eager", "compile", "graph-of-compiled-step", "one"
RUNGS = (EAGER, COMPILE, GRAPH_OF_COMPILED, ONE)

# on one GPU: times as fast a step as PyTorch's, and of the whole training the seconds and where it ends
OVER_GRAPH, OVER_EAGER = 5.0, 60.0
WHOLE_SECONDS, EXCESS_PERCENT = 0.35, 2.0
