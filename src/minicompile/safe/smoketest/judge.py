"""Holds a compiled step against eager's, in every element of a call (`minicompile.safe.call`)."""

from collections.abc import Collection, Iterator
from textwrap import shorten

from torch import Tensor, nn

from minicompile.safe.call import ELEMENTS
from minicompile.safe.failures import NothingCompared, Place, WrongNumbers
from minicompile.safe.smoketest.numerics import (
    COARSER,
    EAGER_ERRORS,
    FARTHEST,
    FINE_NOISE_SHARE,
    GRADIENT_FACTOR,
    NOISE_SHARE,
    TOLERANCES,
    UNITS,
    ZERO_ERRORS,
    compare,
    compare_as_a_whole,
    comparison_dtype,
    dense,
    largest_relative,
    root_mean_square,
    tells,
)
from minicompile.safe.smoketest.outputs import ITERATOR, WORDS, Fact, Step
from minicompile.torch_private.dynamo import is_fsdp

# The elements that are compared by number -> where a step has them
KINDS = {
    "output": "outputs",
    "loss": "loss",
    "gradient": "gradients",
    "batch": "batch",
    "buffer": "buffers",
    "attribute": "attributes",
}
KEPT = ("batch", "buffer", "attribute", "parameter")  # what a call leaves behind in what it can get at


class Judge:
    """Knows how far a compiled step may be from an eager one.

    Attributes:
        dtype: the coarsest arithmetic among the model's parameters, its outputs and autocast.
        tolerance: the largest relative difference of an element that is allowed.
        coarse: whether that arithmetic is coarser than float32.
        found: the largest relative difference of each element of a call that is compared by number.
        varying: (element, name) of what is not compared, since eager itself leaves something else each time.
    """

    def __init__(
        self, model: nn.Module, reference: Step, tolerance: float | None = None, varying: Collection[Fact] = ()
    ) -> None:
        self.dtype = comparison_dtype(model, reference.outputs.values())
        self.tolerance = tolerance or TOLERANCES[self.dtype]
        self.coarse = self.dtype in UNITS
        self.varying = varying
        # FSDP2 sets itself up at the first call of all, and is not set back: hooks appear on modules once.
        self.sets_up = any(is_fsdp(module) for module in model.modules())
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
        wrong = self.wrong(step, reference, finer)
        if wrong is not None:
            return wrong
        numbers = {("output", name): one for name, one in reference.outputs.items()}
        numbers |= {("gradient", name): one for name, one in reference.gradients.items()}
        told = sorted((one for place, one in numbers.items() if place not in self.varying), key=Tensor.numel)
        if not any(map(tells, told)):
            if len(told) < len(numbers):
                sentence = (
                    "eager itself gives other numbers in two steps from one state, so that nothing tells a right model "
                    "from a wrong one; take random numbers from a generator that is seeded."
                )
                return NothingCompared(sentence, "nothing_repeats")
            sentence = (
                "the sample batch gave no number that tells a right model from a wrong one: no output and no gradient "
                "is finite and other than zero; give a batch of real rows, or a model that returns tensors."
            )
            return NothingCompared(sentence, "nothing_compared")
        return None

    def left_out(self, step: Step) -> list[str]:
        """What of a step cannot be compared: iterators; gradients of a model that is only called, or of outputs
        from which the loss does not come."""
        found = [name for (_, name), fact in step.facts.items() if isinstance(fact, str) and fact == ITERATOR]
        if self.sets_up:
            found.append("attributes that are no numbers, which FSDP2 sets up once")
        found += [f"gradient of {name}, from which the loss does not come" for name in step.unused]
        if step.loss is None and any(step.facts.get(("requires_grad", name)) for name in step.outputs):
            found.append("gradient")
        return found

    def explained(self, places: Collection[Place], eager: Step, finer: Step) -> dict[Place, float]:
        """How far a compiled step may be from eager for float32's sake, relative, by place.

        Args:
            eager, finer: the same step in float32 and in float64.

        Returns:
            Nothing where the two are not the same: a tensor is on one side only, or other random numbers were drawn, as
            some are in another dtype.
        """
        if any(finer.facts.get(fact) != drawn for fact, drawn in eager.facts.items() if fact[0] == "random"):
            return {}
        found = {}
        for kind, name in places:
            ours, theirs = (_numbers(step, kind).get(name) for step in (eager, finer))
            if ours is None or theirs is None or ours.shape != theirs.shape:
                return {}
            ours, theirs, size = dense(ours), dense(theirs), self._allowed(kind, eager)
            error = largest_relative(theirs.float(), ours, *size)
            noise = largest_relative(ours + theirs * COARSER, ours.double(), *size)
            # Noise through and through: of a small gradient that is none, eager has the digits that float64 has.
            zero = kind == "gradient" and noise <= min(FARTHEST, 2 * COARSER * error)
            found[kind, name] = ZERO_ERRORS * max(error, noise) if zero else EAGER_ERRORS * error
        return found

    def compared(self, reference: Step) -> list[str]:
        """The elements of a call of which a step has anything."""
        facts = {element for element, _ in reference.facts}
        return [one for one in ELEMENTS if one in facts or (one in KINDS and _numbers(reference, one))]

    def wrong(
        self, step: Step, reference: Step, finer: Step | None = None, number: int | None = None
    ) -> WrongNumbers | None:
        """Say what is wrong with a compiled step, the first or another; None where it is eager's."""
        wrong = list(self.differences(step, reference, finer))
        if number == 1:  # Dynamo has a lazy module draw its weights once more
            wrong = [one for one in wrong if one.place is None or one.place[0] != "random"]
        if wrong and all(one.code == "too_far" and one.place for one in wrong):
            wrong[0].distances = {one.place or ("", ""): float(str(one.fields["relative"])) for one in wrong}
        return wrong[0] if wrong else None

    def differences(self, step: Step, reference: Step, finer: Step | None = None) -> Iterator[WrongNumbers]:
        """Everything that is wrong with a compiled step, the elements of a call in their order."""
        facts = self._facts(step, reference)
        for element in ELEMENTS:
            if element in KINDS:
                ours, theirs, fine = (_numbers(one, element) for one in (step, reference, finer))
                yield from self._compared(element, ours, theirs, fine, *self._allowed(element, reference))
            yield from facts.get(element, ())

    def _allowed(self, kind: str, reference: Step) -> tuple[float, float]:
        """The size below which numbers are rounding noise, and the tolerance."""
        if kind != "gradient":
            return 0.0, self.tolerance
        share = NOISE_SHARE if self.coarse else FINE_NOISE_SHARE
        return share * root_mean_square(reference.gradients.values()), GRADIENT_FACTOR * self.tolerance

    def _facts(self, step: Step, reference: Step) -> dict[str, list[WrongNumbers]]:
        """What differs of all that is no floating-point number, by element."""
        wrong: dict[str, list[WrongNumbers]] = {}
        for element, name in reference.facts.keys() | step.facts.keys():
            ours, theirs = (one.facts.get((element, name), "not there") for one in (step, reference))
            if (
                (element, name) in self.varying
                or (self.sets_up and element == "attribute")
                or (ours == theirs and type(ours) is type(theirs))
            ):
                continue
            label = f"{WORDS.get(element, '')}{name}"
            if element in KEPT and (isinstance(theirs, tuple) or isinstance(ours, tuple)):  # sums over bits
                ours = "written to" if isinstance(theirs, tuple) else "not written to"
                theirs = "not written to" if isinstance(theirs, tuple) else "written to"
            ours, theirs = (shorten(str(value), 80, placeholder=" …") for value in (ours, theirs))
            sentence = f"{label}: {ours} compiled, and {theirs} eager; the compiled model is wrong."
            fields = {"tensor": label, "compiled": ours, "eager": theirs}
            wrong.setdefault(element, []).append(_placed(WrongNumbers(sentence, "unlike", **fields), element, name))
        return {element: sorted(found, key=str) for element, found in wrong.items()}

    def _compared(
        self,
        kind: str,
        ours: dict[str, Tensor],
        reference: dict[str, Tensor],
        finer: dict[str, Tensor],
        noise: float,
        tolerance: float,
    ) -> Iterator[WrongNumbers]:
        for odd in sorted(ours.keys() ^ reference.keys()):
            if (kind, odd) not in self.varying:
                sentence = f"{kind} {odd} is there on one side only; the compiled model is wrong."
                yield _placed(WrongNumbers(sentence, "one_side_only", kind=kind, tensor=odd), kind, odd)
        for name, tensor in reference.items():
            if name not in ours or (kind, name) in self.varying:
                continue
            label = f"gradient of {name}" if kind == "gradient" else name
            try:
                found = compare(ours[name], tensor, label, tolerance, noise)
                compare_as_a_whole(ours[name], tensor, finer.get(name), label, self.dtype, noise)
            except WrongNumbers as error:
                yield _placed(error, kind, name)
            else:
                self.found[kind] = max(found.relative, self.found.get(kind, 0.0))


def worse(
    first: WrongNumbers | NothingCompared | None, second: WrongNumbers | NothingCompared | None
) -> WrongNumbers | NothingCompared | None:
    """What is wrong with two steps: the first of the two, or the one that no rounding explains."""
    if first is None or second is None:
        return first or second
    ours, theirs = (getattr(one, "distances", None) for one in (first, second))
    if ours and theirs and isinstance(first, WrongNumbers):
        first.distances = {place: max(ours.get(place, 0.0), theirs.get(place, 0.0)) for place in ours | theirs}
    return second if ours and not theirs else first


def _placed(error: WrongNumbers, element: str, name: str) -> WrongNumbers:
    """Note on what differs which element of a call it is of, and its name there."""
    error.fields["element"], error.place = element, (element, name)
    return error


def _numbers(step: Step | None, kind: str) -> dict[str, Tensor]:
    if step is None:
        return {}
    if kind == "loss":
        return {} if step.loss is None else {"loss": step.loss}
    return getattr(step, KINDS[kind])
