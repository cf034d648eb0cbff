"""The private names of torch that the profile leans on, looked up and used in the torch that is installed."""

import os

import pytest
import torch
from torch import nn

from minicompile.torch_private.profiling import (
    Stopwatch,
    fresh_caches,
    keeping_graphs,
    nothing_called,
    timed_graphs,
    timed_libraries,
    wrapper_globals,
)


@pytest.fixture(scope="module")
def compiled():
    """A compiled product and softmax, its input and its one graph."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1)).eval(), torch.randn(4, 8)
    with fresh_caches(), torch.no_grad():
        function = torch.compile(model)
        with keeping_graphs() as graphs:
            function(x)
        assert len(graphs) == 1
        yield function, x, graphs, model(x)


def kernels(graphs: list) -> list[str]:
    return [name for wrapper in wrapper_globals(graphs) for name in wrapper if name.startswith("cpp_fused")]


def test_a_graph_is_timed_once_a_call_and_then_no_more(compiled):
    function, x, graphs, _ = compiled
    stopwatch = Stopwatch()
    with timed_graphs(graphs, stopwatch):
        function(x)
        function(x)
    function(x)
    assert len(stopwatch.samples_us) == 2
    assert min(stopwatch.samples_us) > 0


def test_a_library_call_is_timed_and_gives_the_same(compiled):
    function, x, graphs, expected = compiled
    stopwatch = Stopwatch()
    with timed_libraries(graphs, stopwatch):
        output = function(x)
    function(x)
    assert len(stopwatch.samples_us) == 1  # the product; the softmax is generated
    torch.testing.assert_close(output, expected)


def test_the_wrapper_runs_without_its_calls_and_is_whole_afterwards(compiled):
    function, x, graphs, expected = compiled
    assert len(kernels(graphs)) == 1
    before = [dict(wrapper) for wrapper in wrapper_globals(graphs)]
    with nothing_called(graphs, kernels(graphs), {}):
        assert function(x).shape == expected.shape
    assert [dict(wrapper) for wrapper in wrapper_globals(graphs)] == before
    torch.testing.assert_close(function(x), expected)


def test_what_a_block_changes_is_undone_when_it_fails(compiled):
    _, _, graphs, _ = compiled
    before = [dict(wrapper) for wrapper in wrapper_globals(graphs)]
    callables = [graph.current_callable for graph in graphs]
    with pytest.raises(KeyError), nothing_called(graphs, kernels(graphs), {}), timed_graphs(graphs, Stopwatch()):
        raise KeyError
    assert [dict(wrapper) for wrapper in wrapper_globals(graphs)] == before
    assert [graph.current_callable for graph in graphs] == callables


def test_each_block_of_fresh_caches_has_a_folder_of_its_own():
    folders = []
    for _ in range(2):
        with fresh_caches():
            folders.append(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert folders[0] != folders[1]
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") not in folders
