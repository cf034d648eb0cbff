"""What a call can change is found: through methods, closures, names, containers and objects of any kind."""

import functools
import logging

import torch
from torch import nn

from minicompile.state.reach import reached, walk

SHARED = torch.ones(1)
LOGGER = logging.getLogger("not anybody's state")


class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        self.history = [{"loss": torch.zeros(1)}]
        self.generator = torch.Generator()

    def step(self, x):
        return self.model(x) * named()


def named():
    LOGGER.debug("called")
    return SHARED


def test_a_method_leads_to_its_object_and_to_what_its_functions_name():
    trainer = Trainer()
    found = reached(trainer.step, (torch.ones(2),), {})
    tensors = {id(tensor) for tensor in found.tensors}
    assert {id(trainer.model.weight), id(trainer.history[0]["loss"]), id(SHARED)} <= tensors
    assert found.generators == [trainer.generator]
    assert {id(trainer), id(trainer.model)} <= {id(one) for one in found.objects}
    assert not any(isinstance(one, logging.Logger) for one in found.objects)
    assert any(one is trainer.history for one in found.containers)


def test_a_partial_a_closure_and_a_default_are_followed():
    first, second, third = torch.ones(1), torch.ones(1), torch.ones(1)

    def closed(x, default=second):
        return x + first + default

    found = reached(functools.partial(closed, third))
    assert {id(first), id(second), id(third)} <= {id(tensor) for tensor in found.tensors}


def test_what_holds_itself_ends():
    ring = [torch.ones(1)]
    ring.append(ring)
    assert len(reached(ring).tensors) == 1


class Slotted:
    __slots__ = ("__hidden", "seen")

    def __init__(self):
        self.seen, self.__hidden = [torch.ones(1)], torch.ones(2)


class Net(nn.Module):
    kept = (torch.ones(5),)

    def __init__(self):
        super().__init__()
        self.layer, self.slotted = nn.Linear(2, 2), Slotted()

    def forward(self, x):
        return self.helper(x)

    def helper(self, x):
        return self.layer(x) + SHARED

    def evaluate(self):
        return NOT_FOR_A_CALL


NOT_FOR_A_CALL = torch.ones(1)


def test_each_thing_has_the_shortest_name_that_leads_to_it():
    model = Net()
    names = {id(value): name for name, value in walk({"": model, "batch": {"x": [torch.ones(1)]}})}
    assert names[id(model.layer.weight)] == "layer.weight"
    assert names[id(model.slotted.seen[0])] == "slotted.seen[0]"
    assert names[id(Net.kept[0])] == "class attribute Net.kept[0]"
    assert names[id(SHARED)].endswith("SHARED")
    assert {"batch['x'][0]", "slotted._Slotted__hidden"} <= set(names.values())


def test_a_model_s_class_is_followed_where_its_call_may_come():
    tensors = {id(tensor) for tensor in reached(Net()).tensors}
    assert id(SHARED) in tensors
    assert id(NOT_FOR_A_CALL) not in tensors
