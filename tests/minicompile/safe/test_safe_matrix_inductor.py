"""The testing matrix with Inductor's own code. Caches on disk are shared and stay warm."""

from itertools import product

import pytest
from pairwise import pairwise
from safe_models import MODELS, build

from minicompile.safe.compile_cases import Case, cases, check

SETTINGS = [case for case in cases() if case.backend == "inductor" and case.policy == "fallback_eager"]


@pytest.mark.parametrize(
    ("name", "case"), pairwise(product(MODELS, SETTINGS), lambda name, case: (name, case.mode, case.dynamic)), ids=str
)
def test_every_model_compiles_with_inductor(name: str, case: Case):
    check(lambda: build(name), case)
