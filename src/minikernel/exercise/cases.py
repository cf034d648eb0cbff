"""The rows on which an exercise is tried: those on which every kernel is proven, fewer of them wide, and some more."""

import torch

from minikernel.exercise.exercises import COLS, known_cases
from minikernel.proof.proof import ROWS, SEED, Case, adversarial_cases

WIDTHS = {1: ROWS, 7: ROWS, 64: ROWS, COLS: ROWS, 1000: ROWS, 2500: ROWS, 50257: 2}  # of ordinary rows, and how many


def cases_of(operation: str) -> list[Case]:
    """The cases of an operation that are inputs: float32 tensors on the CPU."""
    generator = torch.Generator().manual_seed(SEED)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    proven = adversarial_cases()
    widths = {case.x.shape[-1]: case.x for case in proven if case.name == "random"}
    ordinary = [Case("random", widths.get(cols, normal(rows, cols))[:rows]) for cols, rows in WIDTHS.items()]
    others = [case for case in proven if case.name != "random" and case.x.shape[-1] == COLS]
    special = normal(ROWS, COLS)
    special[1, 3], special[2, 5] = torch.nan, torch.inf
    begins_masked = normal(ROWS, 2500)
    begins_masked[:, :2100] = -torch.inf
    more = [
        Case("masked beginning", begins_masked),
        Case("rows apart", normal(ROWS, COLS) + 200.0 * torch.arange(ROWS).view(ROWS, 1)),
        Case("nearly equal", 1.7 + 1e-3 * normal(ROWS, COLS)),
        Case("NaN and infinity", special),
    ]
    unique = {(case.name, case.x.shape[-1]): case for case in [*ordinary, *others, *more]}
    return [case for case in unique.values() if case.name in known_cases(operation)]
