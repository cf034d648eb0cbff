"""This machine's limits, and softmaxes beneath them, in one call."""

import io

import matplotlib
import pytest
import torch
from PIL import Image

from minikernel import roofline
from minikernel.measure import ceilings, timing
from minilab import LabError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A cache and products that take no time: what is tested is not how fast this machine is."""
    monkeypatch.setattr(timing, "last_level_cache_bytes", lambda device: 1 << 16)
    monkeypatch.setattr(ceilings, "last_level_cache_bytes", lambda device: 1 << 16)
    monkeypatch.setitem(ceilings.SIZES["cpu"], "matrix", 64)


def test_what_is_given_lies_beside_f_softmax_beneath_measured_limits(tmp_path):
    backend, size = matplotlib.get_backend(), matplotlib.rcParams["font.size"]
    found = roofline({"mine": lambda x: x.softmax(-1)}, shape=(64, 16), device="cpu", launches=3)
    assert set(found.rows) == {"F.softmax", "mine"} == {point["kernel"] for point in found.panel["points"]}
    assert found.rows["mine"]["median_us"] > 0
    assert found.panel["shape"] == [64, 16]
    assert all(found.panel["ceilings"][name] > 0 for name in ("copy_gb_per_s", "fp32_tflop_per_s"))
    found.save(tmp_path / "here.png")
    assert Image.open(tmp_path / "here.png").size == Image.open(io.BytesIO(found._repr_png_())).size
    assert (matplotlib.get_backend(), matplotlib.rcParams["font.size"]) == (backend, size)  # a notebook's own stay


def test_a_wrong_kernel_has_no_place_in_the_picture():
    with pytest.raises(LabError, match="mine"):
        roofline({"mine": torch.sigmoid}, shape=(64, 16), device="cpu", launches=3)
