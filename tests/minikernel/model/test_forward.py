"""`minikernel.minigpt_forward`: the model's output everywhere, in one launch where a GPU allows it."""

import emulator
import pytest
import torch
from emulated_gpu import EmulatedGpu

from minikernel import minigpt_forward
from minikernel.model import forward, native
from minikernel.model.weights import weights_of
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

needs_emulator = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return GrammarMiniGPT(SIZES).eval()


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("shape", [(2, 5), (1, 16)])
def test_without_a_gpu_it_is_the_model(model, shape, probabilities):
    ids = torch.arange(shape[0] * shape[1]).reshape(shape)
    with torch.no_grad():
        expected = model.probabilities(ids) if probabilities else model(ids)
        assert minigpt_forward(model, ids, probabilities=probabilities).equal(expected)


def test_what_the_kernels_do_not_take_is_the_models_too():
    model = GrammarMiniGPT(MiniGPTConfig(vocab_size=40, block_size=16, n_layer=1, n_head=2, n_embd=8))
    ids = torch.arange(6).reshape(2, 3)
    assert minigpt_forward(model, ids).equal(model(ids))


def test_without_falling_back_it_says_why_not(model):
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu"):
        minigpt_forward(model, torch.zeros((1, 4), dtype=torch.int64), fall_back=False)


@pytest.mark.parametrize("fall_back", [True, False])
def test_an_unknown_rung_is_refused_in_one_sentence(model, fall_back):
    with pytest.raises(LabError, match=r"^minigpt_forward has no rung 'two'; take one of one"):
        minigpt_forward(model, torch.zeros((1, 4), dtype=torch.int64), rung="two", fall_back=fall_back)


@pytest.fixture(scope="session")
def extension():
    return native.build()


@pytest.fixture(params=["in Python", "in C++"])
def gpu(monkeypatch, request):
    """Further calls are made in Python, and by the extension."""
    made = EmulatedGpu(monkeypatch)
    if request.param == "in C++":
        extension = request.getfixturevalue("extension")
        made.serve(extension)
        monkeypatch.setattr(native, "extension", lambda: extension)
        monkeypatch.setattr(native, "again", counted(made, extension.again))
    return made


def counted(gpu, again):
    """`again`, whose results that are none are counted."""
    gpu.answers = []

    def call(*given):
        made = again(*given)
        gpu.answers.append(made is not None)
        return made

    return call


def is_the_model(made, model, ids, probabilities=False):
    with torch.no_grad():
        wanted = model.probabilities(ids) if probabilities else model(ids)
    tolerance = 1e-5 if made.dtype == torch.float32 else 5e-2
    torch.testing.assert_close(made, wanted, rtol=tolerance, atol=tolerance)


@needs_emulator
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_launches_are_the_model_and_are_laid_out_once(gpu, model, dtype):
    model.to(dtype)
    for shape, probabilities in [((1, 16), True), ((1, 16), False), ((2, 5), True)] * 2:
        ids = torch.randint(0, 37, shape)
        is_the_model(
            minigpt_forward(model, ids, probabilities=probabilities, fall_back=False), model, ids, probabilities
        )
    assert [grid for _, grid in gpu.launched] == [4, 4, 8] * 2
    if native.again is not native.in_python:
        assert gpu.answers == [False] * 3 + [True] * 3
    assert len(weights_of(model).launches) == 3
    ids = torch.randint(0, 37, (31, 2))
    for _ in range(2):
        is_the_model(minigpt_forward(model, ids, fall_back=False), model, ids)
    assert gpu.launched[-1][0].startswith("forward_block<")


@needs_emulator
def test_ids_are_made_contiguous_and_none_launch_nothing(gpu, model):
    ids = torch.arange(6).reshape(3, 2).T
    for _ in range(2):
        is_the_model(minigpt_forward(model, ids, fall_back=False), model, ids)
    assert len(gpu.launched) == 2
    assert minigpt_forward(model, ids[:0], fall_back=False).shape == (0, 3, 37)
    assert len(gpu.launched) == 2


def other_values(model):
    torch.manual_seed(2)
    return GrammarMiniGPT(SIZES).state_dict()


def step(model, **options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
    model(torch.arange(8).reshape(1, 8)).square().mean().backward()
    optimizer.step()


def replace_parameter(model):
    model.blocks[0].mlp.fc.weight = torch.nn.Parameter(model.blocks[0].mlp.fc.weight.detach() * 2)


def replace_module(model):
    model.blocks[0].mlp.fc = torch.nn.Linear(64, 256)


def replace_block(model):
    model.blocks[0] = GrammarMiniGPT(SIZES).blocks[0]


def by_hand(model):
    with torch.no_grad():
        model.position_embedding.weight[3, 5] += 1


def in_inference_mode(model):
    with torch.inference_mode():
        model.position_embedding.weight[3, 5] += 1


def other_data(model):
    model.lm_head.bias.data = model.lm_head.bias.data + 1


def swapped(model):
    torch.utils.swap_tensors(model.lm_head.bias, torch.nn.Parameter(torch.randn(37)))


CHANGES = [
    by_hand,
    in_inference_mode,
    step,
    lambda model: step(model, foreach=True),
    lambda model: step(model, fused=True),
    lambda model: model.load_state_dict(other_values(model)),
    lambda model: model.load_state_dict(other_values(model), assign=True),
    other_data,
    swapped,
    replace_parameter,
    replace_module,
    replace_block,
    lambda model: model.to(torch.bfloat16),
    lambda model: model.bfloat16().float(),  # which may have the addresses of before
    lambda model: torch.nn.init.normal_(model.ln_f.weight),
    lambda model: model.apply(lambda module: torch.nn.init.ones_(module.bias) if hasattr(module, "bias") else None),
]


@needs_emulator
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_weight_is_noticed_at_the_next_call(gpu, model, change):
    ids = torch.arange(16).reshape(1, 16)
    for _ in range(2):
        before = minigpt_forward(model, ids, fall_back=False)
    change(model)
    after = minigpt_forward(model, ids, fall_back=False)
    assert not after.equal(before)
    is_the_model(after, model, ids)
    is_the_model(minigpt_forward(model, ids, fall_back=False), model, ids)


@needs_emulator
def test_weights_swapped_for_one_call_count_for_it_alone(gpu, model):
    ids = torch.arange(16).reshape(1, 16)
    before = minigpt_forward(model, ids, fall_back=False)
    others = other_values(model)
    parameters = dict(model.named_parameters())
    with torch.nn.utils.stateless._reparametrize_module(model, others):
        is_the_model(minigpt_forward(model, ids, fall_back=False), model, ids)
    assert dict(model.named_parameters()) == parameters
    assert minigpt_forward(model, ids, fall_back=False).equal(before)


@needs_emulator
def test_after_a_launch_other_ids_are_refused_or_the_models_as_before(gpu, model):
    ids = torch.arange(16).reshape(1, 16)
    minigpt_forward(model, ids, fall_back=False)
    with pytest.raises(LabError, match=r"int64, on cpu, and got \(1, 16\), torch\.int32"):
        minigpt_forward(model, ids.int(), fall_back=False)
    with pytest.raises(LabError, match="17 ids, and the model's positions end at block_size = 16"):
        minigpt_forward(model, torch.zeros((1, 17), dtype=torch.int64), fall_back=False)
    model.ln_f.bfloat16()
    with pytest.raises(LabError, match="takes parameters of one dtype on one device; move them there"):
        minigpt_forward(model, ids, fall_back=False)
    assert len(gpu.launched) == 2  # the last was made before the parameters were looked at


@needs_emulator
def test_weights_that_a_graph_reads_stay_until_the_model_goes(gpu, model):
    ids = torch.arange(16).reshape(1, 16)
    minigpt_forward(model, ids, fall_back=False)
    first = weights_of(model)
    gpu.capturing = True
    minigpt_forward(model, ids, fall_back=False)
    gpu.capturing = False
    for kept in ([first], [first]):
        by_hand(model)
        minigpt_forward(model, ids, fall_back=False)
        assert weights_of(model).replaced == kept


@pytest.mark.parametrize(("sequences", "kernel"), [(2, "forward_cluster"), (31, "forward_block")])
def test_the_timeline_is_of_the_kernel_that_is_launched(monkeypatch, model, sequences, kernel):
    monkeypatch.setattr("minikernel.model.weights._check_place", lambda dtype, device: None)
    for name in ("forward_cluster", "forward_block"):
        monkeypatch.setattr(getattr(forward, name), "timeline", lambda given, ids, name=name: (name, given, ids))
    name, given, ids = forward.timeline(model, torch.zeros((sequences, 3), dtype=torch.int64))
    assert name == kernel
    assert given is (model if kernel == "forward_block" else weights_of(model))
    assert ids.shape == (sequences, 3)
    with pytest.raises(LabError, match="end at block_size = 16"):
        forward.timeline(model, torch.zeros((1, 17), dtype=torch.int64))
