"""What is said of random models is true, as `random_models` draws them."""

import pytest
import torch
from random_models import source, verdict, written
from zoo_models import captured_anew, load
from zoo_runs import ran


def test_a_seed_gives_the_same_models_each_time():
    first = [source(11, number) for number in range(8)]
    torch.rand(3)  # whatever else draws numbers
    assert [source(11, number) for number in range(8)] == first
    assert len(set(first)) == 8
    assert all(source(12, number) != text for number, text in enumerate(first))


def test_eager_pytorch_runs_them(tmp_path):
    trained = 0
    for name in written(11, range(40), tmp_path):
        model = load(name, tmp_path)
        module, inputs = model.make()
        result = module(*inputs)
        if model.train:
            result.backward()
            trained += 1
            assert all(one.grad is not None for one in module.parameters() if one.requires_grad)
        else:
            assert isinstance(result, torch.Tensor) or all(isinstance(one, torch.Tensor) for one in result)
    assert 4 < trained < 20


@pytest.mark.parametrize(("seed", "target"), [(11, "cpu"), (12, "simulated")])
def test_what_is_said_of_them_is_true(seed, target, tmp_path):
    captures = [captured_anew(name, target, tmp_path) for name in written(seed, range(2), tmp_path)]
    for one, its in zip(captures, ran(captures, tmp_path), strict=True):
        found = verdict(one, its)
        assert sum(found.held.values()) > 10
        assert not found.false, one.name
