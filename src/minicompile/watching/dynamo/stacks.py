"""Which frames of a stack trace are the user's. Texts alone: torch is not asked."""

import re

PACKAGES_HERE = "/-/site-packages/"  # what stands in a `Watched` for the folder of this machine's packages

FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
PACKAGES = re.compile(r"/(?:lib/python[\d.]+/)?(?:site-packages|dist-packages)/|/lib/python[\d.]+/")
# Python's and torch's own files; a model out of another package is read like one of the user's
FOREIGN = re.compile(r"/(?:site|dist)-packages/(?:torch|triton)/|/lib/python[\d.]+/(?!(?:site|dist)-packages/)")
MACHINERY = re.compile(r"/torch/(?:_\w+|fx|utils|autograd|func)/")  # what traces and differentiates
NO_FILE = re.compile(r"<(?!ipython-input)")


def user_frames(stack: str | None) -> list[tuple[str, int]]:
    """(file, line) of a stack trace's frames outside Python's and torch's own files, the innermost first.

    A model made of torch's modules alone has none: then it is the line of the module that computes; of a step of one
    of torch's optimizers, or of a plain function of torch's, the line there.
    """
    frames = [(file, int(line)) for file, line, _ in reversed(FRAME.findall(stack or "")) if not NO_FILE.match(file)]
    own = [frame for frame in frames if not FOREIGN.search(frame[0])]
    modules = [frame for frame in frames if "/torch/nn/modules/" in frame[0]]
    return own or modules[:1] or [frame for frame in frames if not MACHINERY.search(frame[0])][:1]


def files_of_users(graphs: list[dict], graph_breaks: list[dict], more: list[str]) -> list[str]:
    """The files whose lines a capture shows: those of the nodes' frames, those in which Dynamo stopped, and others.

    Args:
        graphs: with the `nodes` of each.
        graph_breaks: with the `stack` of each.
        more: the others, in which a user's own kernels stand.
    """
    files = [file for graph in graphs for node in graph["nodes"] for file, _ in user_frames(node["stack"])]
    others = [*(file for one in graph_breaks for file, _, _ in one["stack"]), *more]
    return list(dict.fromkeys([*files, *(file for file in others if not FOREIGN.search(file))]))
