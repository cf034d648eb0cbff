"""A rung's CUDA source is compiled whole: with headers of its own room and of the one around it."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from minikernel.model import nvrtc
from minikernel.model.block import forward as forward_block
from minikernel.model.cluster import forward as forward_cluster
from minikernel.model.generate import launch as generate
from minikernel.model.graph import launch as graph
from minikernel.model.train import launch as train
from minikernel.ops import softmax_cuda
from minilab import LabError
from minilab.records.sources.closure import closure

RUNGS = {"block": forward_block, "cluster": forward_cluster, "generate": generate, "graph": graph, "train": train}
INCLUDE = re.compile(r'^#include "(.+)"$', re.M)


@pytest.fixture(autouse=True)
def forget():
    nvrtc.compiled.cache_clear()
    yield
    nvrtc.compiled.cache_clear()


@pytest.mark.parametrize("name", RUNGS)
def test_a_source_is_whole(name):
    path = RUNGS[name].SOURCE
    included = INCLUDE.findall(path.read_text())
    assert {"../ptx.cuh", "ptx.cuh"} & set(included)
    text = nvrtc.source(path)
    assert "#include" not in text
    assert all((path.parent / header).read_text() in text for header in included)
    assert sorted(path.parent.glob("*.cuh")) == sorted(path.parent / each for each in included if "/" not in each)


@pytest.mark.parametrize("name", RUNGS)
def test_what_is_measured_with_a_rung_depends_on_its_source_and_on_all_headers(name):
    path = RUNGS[name].SOURCE
    headers = {(path.parent / header).resolve() for header in INCLUDE.findall(path.read_text())}
    assert {path, *headers} <= {Path(file).resolve() for file in closure(RUNGS[name].__file__)}


def test_without_cupy_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(LabError, match=r"kernel graph/kernels\.cu needs CuPy.*install the GPU extra"):
        nvrtc.compiled(graph.SOURCE, "attend", 0)


@pytest.mark.parametrize(("blocks", "attributes"), [(16, [("pointer", 14, 1)]), (1, [])])
def test_a_kernel_may_take_all_shared_memory_and_the_largest_clusters_there_are(monkeypatch, blocks, attributes):
    asked, set_to = [], []
    function = SimpleNamespace(shared_size_bytes=1000, kernel=SimpleNamespace(ptr="pointer"))

    class Device:
        def __init__(self, number):
            asked.append(number)

        __enter__ = __exit__ = lambda *_: None

    def module(**given):
        asked.append(given)
        return SimpleNamespace(get_function=lambda expression: asked.append(expression) or function)

    driver = SimpleNamespace(funcSetAttribute=lambda *given: set_to.append(given))
    cupy = SimpleNamespace(RawModule=module, cuda=SimpleNamespace(Device=Device, driver=driver))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(softmax_cuda, "largest_shared_bytes", lambda device: 5000)
    monkeypatch.setattr(softmax_cuda, "limits_of", lambda device: softmax_cuda.Limits(5000, blocks))
    for _ in range(2):
        assert nvrtc.compiled(graph.SOURCE, "attend", 3) is function.kernel
    code = {"code": nvrtc.source(graph.SOURCE), "options": ("--std=c++17",), "backend": "nvrtc"}
    assert asked == [3, code | {"name_expressions": ("attend",)}, "attend"]  # once
    assert function.max_dynamic_shared_size_bytes == 4000
    assert set_to == attributes
