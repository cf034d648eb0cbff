"""After a call, whatever it changed is as it was: tensors of every layout, trainers, lazy modules, generators."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from minicompile.state.frozen_state import frozen


def after(function, *args):
    with frozen(function, args):
        function(*args)


def in_inference(tensor):
    with torch.inference_mode():
        tensor.mul_(2)


with warnings.catch_warnings(), torch.inference_mode():
    warnings.simplefilter("ignore")
    MADE_IN_INFERENCE = torch.ones(3)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    TENSORS = {
        "coo": (torch.eye(3).to_sparse(), lambda x: x._values().mul_(2)),
        "csr": (torch.eye(3).to_sparse_csr(), lambda x: x.values().mul_(2)),
        "jagged": (torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], layout=torch.jagged), None),
        "nested": (torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)]), None),
        "quantised": (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), lambda x: x.fill_(3.0)),
        "conjugate": (torch.ones(3, dtype=torch.complex64).conj(), None),
        "made in inference": (MADE_IN_INFERENCE, in_inference),
        "scalar": (torch.tensor(1.0), None),
        "float8": (torch.ones(3).to(torch.float8_e4m3fn), lambda x: x.view(torch.uint8).fill_(3)),
    }


def values(tensor: torch.Tensor) -> list:
    if tensor.is_nested:
        return [part.tolist() for part in tensor.unbind()]
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return (tensor if tensor.layout == torch.strided else tensor.to_dense()).to(torch.complex64).tolist()


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensors_values_are_put_back(name):
    tensor, change = TENSORS[name]
    change = change or (lambda x: x.mul_(2))
    before = values(tensor)
    after(change, tensor)
    assert values(tensor) == before
    change(tensor)
    assert values(tensor) != before


class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.1)
        self.scaler = torch.amp.GradScaler("cpu")
        self.generator = torch.Generator()
        self.steps, self.log = 0, []

    def step(self, x):
        noise = torch.randn(x.shape, generator=self.generator)
        self.scaler.scale(self.model(x + noise).sum()).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.steps += 1
        self.log.append({"step": self.steps})


def test_a_trainers_step_leaves_nothing_behind():
    trainer = Trainer()
    weight, drawn = trainer.model.weight.clone(), trainer.generator.get_state().clone()
    after(trainer.step, torch.ones(3, 2))
    assert torch.equal(trainer.model.weight, weight)
    assert trainer.model.weight.grad is None
    assert (trainer.steps, trainer.log, dict(trainer.optimizer.state)) == (0, [], {})
    assert trainer.optimizer.param_groups[0]["lr"] == 1e-3
    assert (trainer.scaler._scale, trainer.schedule.last_epoch) == (None, 0)
    assert torch.equal(trainer.generator.get_state(), drawn)


def test_a_lazy_module_is_lazy_again_and_takes_another_size():
    layer = nn.LazyLinear(4)
    after(layer, torch.ones(2, 3))
    assert type(layer) is nn.LazyLinear
    assert layer(torch.ones(2, 5)).shape == (2, 4)
    assert layer.weight.shape == (4, 5)


def test_a_batch_and_a_tensors_marks_are_as_they_were():
    batch, parameter = {"x": torch.ones(2), "labels": 1}, nn.Parameter(torch.ones(2))
    after(lambda batch: batch.pop("labels"), batch)
    assert list(batch) == ["x", "labels"]
    after(torch._dynamo.mark_static_address, parameter)
    assert vars(parameter) == {}


TOTAL = 0


class Own(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, [value])


class Slotted:
    __slots__ = ("seen",)
    count = 0

    def __init__(self):
        self.seen = 1


def test_what_is_bound_anew_is_bound_as_it_was():
    kept, slotted, array, calls = Own(), Slotted(), np.zeros(3), 0
    kept["first"] = 1
    wide = torch.ones(1).expand(4)

    def call():
        global TOTAL
        nonlocal calls
        TOTAL, calls = TOTAL + 1, calls + 1
        kept["second"] = 2
        slotted.seen, Slotted.count = 2, 3
        del slotted.seen
        array[1] = 5
        wide[:1].fill_(7.0)

    after(call)
    assert (TOTAL, calls, slotted.seen, Slotted.count) == (0, 0, 1, 0)
    assert dict(kept) == {"first": [1]}
    assert array.tolist() == [0, 0, 0]
    assert wide.tolist() == [1.0] * 4
