"""A GPU that is not here answers what torch asks while it compiles."""

from zoo_models import captured


def test_a_convolution_of_an_input_that_is_laid_out_otherwise_is_captured():
    """torch makes the input contiguous to see in which layout the library would answer."""
    [graph] = captured("sequence_conv", "simulated").capture["graphs"]
    assert any(node["target"] == "aten.convolution.default" for node in graph["nodes"])
