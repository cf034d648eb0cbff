"""The testing matrix without Inductor: what `scripts/gen_compile_tests.py` writes, on the lab's small models."""

from itertools import product

import pytest
from pairwise import pairwise
from safe_models import MODELS, build

from minicompile.safe.compile_cases import BACKENDS, Case, cases, check

QUICK = [case for case in cases(sequences=True) if case.backend != "inductor"]
# Each model for the settings and the faults that its own kind may bring out; one of them for every other kind.
OF_EVERY_MODEL = [
    case
    for case in QUICK
    if not case.buckets and case.steps == 3 and case.backend != BACKENDS[-1]
    and (not case.fault or (case.fault in ("refuses", "lies") and case.dynamic is None))
]  # fmt: skip
OF_ONE = [
    case
    for case in QUICK
    if case not in OF_EVERY_MODEL and case.mode == "default" and (case.dynamic is None or case.buckets)
]


def varied(name: str, case: Case) -> tuple:
    """What cases differ in."""
    return name, case.backend, case.mode, case.dynamic, case.policy, case.fault


@pytest.mark.parametrize(("name", "case"), pairwise(product(MODELS, OF_EVERY_MODEL), varied), ids=str)
def test_every_model(name: str, case: Case):
    check(lambda: build(name), case)


@pytest.mark.parametrize("case", OF_ONE, ids=str)
def test_one_model(case: Case):
    check(lambda: build("minigpt"), case)
