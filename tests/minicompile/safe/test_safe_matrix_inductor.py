"""The testing matrix with Inductor's own code. Caches on disk are shared and stay warm."""

import pytest
from safe_models import MODELS, build

from minicompile.safe.compile_cases import Case, cases, check

SETTINGS = [case for case in cases() if case.backend == "inductor" and case.policy == "fallback_eager"]


@pytest.mark.parametrize("case", SETTINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_compiles_with_inductor(name: str, case: Case):
    check(lambda: build(name), case)
