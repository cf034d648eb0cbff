"""What a `ForkServer` of the judge's tests calls: the process that `python -m minikernel.judge.worker` is."""

import torch

from minikernel.judge import worker

with torch.compiler.set_stance("force_eager"):  # as redzones do: it imports Dynamo
    pass


def main(descriptor: int, deadline: str) -> None:
    worker.main(descriptor, float(deadline))
