"""Switches of Inductor's: which there are, which a compile asks for, and which are found to change a model's code."""

import enum
import json
from typing import Literal

import pytest
import torch
from torch import nn
from what_if_models import Products

from minicompile import switches as module
from minicompile.models import CapturedModel
from minicompile.switches import found_switches
from minicompile.torch_private import settings
from minicompile.torch_private.names import owner
from minilab import LabError
from minilab.config.check import check_schema, read_schema


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (bool, [False, True]),
        (bool | None, [False, True, None]),
        (Literal["a", "b"], ["a", "b"]),
        (Literal["a"] | bool | None, ["a", False, True, None]),
        (Colour, [Colour.RED, Colour.BLUE]),
        (int, []),
        (str | None, []),
        (bool | int, []),
        (list[bool], []),
    ],
)
def test_a_switch_is_what_has_a_few_values(kind, values):
    assert settings._values(kind) == values


def test_a_switch_is_flipped_to_what_it_is_not():
    found = settings.switches()
    assert found["split_reductions"] == [not owner("config").split_reductions]
    assert all(values for values in found.values())
    assert "max_fusion_size" not in found
    assert not [name for name in found if name.startswith("_")]


def test_no_default_is_a_path_or_a_function():
    found = settings.defaults()
    assert found["max_fusion_size"] == "64"
    assert not [text for text in found.values() if text.startswith(("'/", "<"))]


def test_what_a_block_asks_for_is_noted():
    with settings.asked() as names:
        assert owner("config").triton.persistent_reductions
    assert names == {"triton.persistent_reductions"}


def model(name: str, one: nn.Module, *size: int) -> CapturedModel:
    return CapturedModel(name, one.eval(), (torch.ones(size),))


class Both(Products):
    """A result that is computed in place, and a softmax, in which there is something to fuse."""

    def forward(self, x):
        return super().forward(x), x.softmax(dim=-1)


def test_what_changes_a_model_s_code_is_found_and_what_only_a_later_model_shows_too(monkeypatch):
    given = {
        "size_asserts": [False],  # in every wrapper
        "inplace_buffers": [False],  # of a result over a result, which one operation alone has not
        "max_fusion_size": ["no number"],  # asked for where there is something to fuse
        "triton.persistent_reductions": [False],  # nothing that C++ asks for
    }
    monkeypatch.setattr(module, "switches", lambda: given)
    small = model("relu", nn.ReLU(), 4, 4)
    large = model("products", Both(), 8, 32)
    found = found_switches([small, large], "cpu", at_once=2)
    check_schema(json.loads(json.dumps(found)), read_schema("schemas/switches.schema.yaml"), "switches.json")
    assert {(one["name"], one["model"]) for one in found["changes"]} == {
        ("size_asserts", "relu"),
        ("inplace_buffers", "products"),
    }
    (failed,) = found["fails"]
    assert (failed["name"], failed["model"]) == ("max_fusion_size", "products")
    assert "TypeError" in failed["said"]
    assert [one["asks"] for one in found["models"]] == [2, 3]


def test_a_model_that_does_not_compile_is_refused():
    class Fails(nn.Module):
        def forward(self, x):
            return x @ x

    with pytest.raises(LabError, match=r"model fails does not compile with nothing set: .*; mend the model"):
        found_switches([model("fails", Fails(), 2, 3)], "cpu")
