"""What the rungs of a training step are called, and what is asked of the lab's."""

EAGER, COMPILE, GRAPH_OF_COMPILED, GRAPH, ONE = "eager", "compile", "graph-of-compiled-step", "graph", "one"
RUNGS = (EAGER, COMPILE, GRAPH_OF_COMPILED, GRAPH, ONE)
OURS = (GRAPH, ONE)
NUMPY, TORCH_CPU = "numpy", "torch-cpu"  # which train on the machine's CPU
CURVES = (NUMPY, TORCH_CPU, *RUNGS)

# on one GPU: times as fast a step as PyTorch's, and of the whole training the seconds and where it ends
OVER_GRAPH, OVER_EAGER = 5.0, 60.0
GRAPH_OVER_GRAPH = 2.5  # and the lab's own graph, as fast as PyTorch's
WHOLE_SECONDS, EXCESS_PERCENT = 0.35, 2.0
