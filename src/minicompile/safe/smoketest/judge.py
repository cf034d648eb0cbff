"""Holds a compiled step against eager's: outputs, loss, gradients and buffers."""

from torch import Tensor, nn

from minicompile.safe.failures import NothingCompared, WrongNumbers
from minicompile.safe.smoketest.numerics import (
    GRADIENT_FACTOR,
    NOISE_SHARE,
    TOLERANCES,
    UNITS,
    compare,
    compare_as_a_whole,
    comparison_dtype,
    root_mean_square,
    tells,
)
from minicompile.safe.smoketest.steps import Step


class Judge:
    """Knows how far a compiled step may be from an eager one.

    Attributes:
        dtype: the coarsest arithmetic among the model's parameters, its outputs and autocast.
        tolerance: the largest relative difference of an element that is allowed.
        coarse: whether that arithmetic is coarser than float32.
        found: the largest relative difference of each kind that was compared: output, loss, gradient, buffer.
    """

    def __init__(self, model: nn.Module, reference: Step, tolerance: float | None = None) -> None:
        self.dtype = comparison_dtype(model, reference.outputs.values())
        self.tolerance = tolerance or TOLERANCES[self.dtype]
        self.coarse = self.dtype in UNITS
        self.found: dict[str, float] = {}

    def difference(
        self, step: Step, reference: Step, finer: Step | None = None
    ) -> WrongNumbers | NothingCompared | None:
        """Say what is wrong with a compiled step, or that nothing tells; None where it is eager's.

        Args:
            step: the compiled one.
            reference: eager's from the same state.
            finer: eager's in float32 from the same state, where the arithmetic is coarser than that.
        """
        noise = NOISE_SHARE * root_mean_square(reference.gradients.values())
        kinds = {
            "output": (step.outputs, reference.outputs, finer.outputs if finer else None, 0.0),
            "loss": (_loss(step), _loss(reference), _loss(finer) if finer else None, 0.0),
            "gradient": (step.gradients, reference.gradients, finer.gradients if finer else None, noise),
            "buffer": (step.buffers, reference.buffers, finer.buffers if finer else None, 0.0),
        }
        try:
            for kind, found in kinds.items():
                self._compare(kind, *found)
        except WrongNumbers as error:
            return error
        numbers = sorted((*reference.outputs.values(), *reference.gradients.values()), key=Tensor.numel)
        if not any(map(tells, numbers)):
            sentence = (
                "the sample batch gave no number that tells a right model from a wrong one: no output and no gradient "
                "is finite and other than zero; give a batch of real rows, or a model that returns tensors."
            )
            return NothingCompared(sentence, "nothing_compared")
        return None

    def _compare(
        self,
        kind: str,
        ours: dict[str, Tensor],
        reference: dict[str, Tensor],
        finer: dict[str, Tensor] | None,
        noise: float,
    ) -> None:
        if ours.keys() != reference.keys():
            odd = sorted(ours.keys() ^ reference.keys())[0]
            sentence = f"{kind} {odd} is there on one side only; the compiled model is wrong."
            raise WrongNumbers(sentence, "one_side_only", kind=kind, tensor=odd)
        tolerance = GRADIENT_FACTOR * self.tolerance if kind == "gradient" else self.tolerance
        for name, tensor in reference.items():
            label = f"gradient of {name}" if kind == "gradient" else name
            found = compare(ours[name], tensor, label, tolerance, noise)
            compare_as_a_whole(ours[name], tensor, (finer or {}).get(name), label, self.dtype, noise)
            self.found[kind] = max(found.relative, self.found.get(kind, 0.0))


def _loss(step: Step) -> dict[str, Tensor]:
    return {} if step.loss is None else {"loss": step.loss}
