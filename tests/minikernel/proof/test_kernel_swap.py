"""A right kernel leaves the prediction as it was; a wrong one is refused."""

from pathlib import Path

import pytest
import torch
import yaml
from random_checkpoint import SQUARE, random_checkpoint
from torch.nn import functional as F

from minikernel.ops.ladder.table import LADDERS
from minikernel.proof.kernel_swap import kernel_for, past_simple_forms, swap_softmax
from minikernel.proof.kernel_swap import recompute as computed_again
from minilab import LabError
from minilab.device import gpu_devices
from minilab.records.verify import differences
from minimodel.port import port
from minimodel.tokenizer import Tokenizer
from minimodel.torch_minigpt import last_axis_softmax

TOKENIZER = Tokenizer.from_words(f"word{i:02}" for i in range(3, SQUARE.vocab_size))  # word03 has id 3
PROMPT = "word03 word07"
ROOT = Path(__file__).parents[3]


def exact_softmax(logits):
    """Another way to the right numbers: float64 throughout, rounded once."""
    return torch.softmax(logits.double(), dim=-1).float()


@pytest.fixture(scope="module")
def model():
    return port(random_checkpoint())[0]


def swap(model, kernel, past_simple=()):
    return swap_softmax(model, TOKENIZER, PROMPT, past_simple, kernel, device="cpu-any")


def test_a_right_kernel_keeps_the_prediction(model):
    report = swap(model, exact_softmax)
    with torch.no_grad():
        probabilities = F.softmax(model(torch.tensor([[TOKENIZER.bos, 3, 7]]))[0, -1], dim=-1)
    expected = [TOKENIZER.tokens[index] for index in probabilities.argsort(descending=True)[:5]]
    for path in ("cpu", "before", "after"):
        assert [row["word"] for row in report[path]["top"]] == expected
    assert report["top1_changed"] is False
    assert report["after_to_before"]["max_relative_difference"] < 1e-5


def test_past_simple_words_are_told_apart(model):
    top = [row["word"] for row in swap(model, exact_softmax)["before"]["top"]]
    some, every = swap(model, exact_softmax, past_simple=top[1:]), swap(model, exact_softmax, past_simple=top)
    assert [row["past_simple"] for row in some["before"]["top"]] == [False, True, True, True, True]
    assert not some["after"]["all_past_simple"]
    assert every["after"]["all_past_simple"]


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros_like,
        lambda logits: torch.full_like(logits, torch.nan),
        lambda logits: exact_softmax(logits) * 1.002,
        lambda logits: exact_softmax(logits / 1.01),
        lambda logits: exact_softmax(logits).roll(1, dims=-1),
        lambda logits: torch.softmax(logits, dim=1),
    ],
    ids=["zeros", "nan", "scaled", "warm", "shifted", "wrong axis"],
)
def test_a_kernel_that_returns_wrong_numbers_is_refused(model, wrong):
    with pytest.raises(LabError, match="the kernel is wrong"):
        swap(model, wrong)


def test_a_kernel_within_tolerance_that_changes_the_first_word_is_refused():
    model, _ = port(random_checkpoint())
    with torch.no_grad():  # the two last rows give one logit, up to a hair
        model.lm_head.weight.zero_()
        model.lm_head.bias.zero_()
        model.lm_head.bias[4:6] = torch.tensor([3.0001, 3.0])

    def exchange(logits):
        return exact_softmax(logits)[..., [0, 1, 2, 3, 5, 4, *range(6, SQUARE.vocab_size)]]

    with pytest.raises(LabError, match="changes the word after 'word03 word07' from 'word04' to 'word05'"):
        swap(model, exchange)


@pytest.mark.parametrize(
    ("tokenizer", "prompt", "sentence"),
    [
        (TOKENIZER, "word03 elsewhere", "a word that is not in the vocabulary"),
        (TOKENIZER, "word03 " * 16, "17 ids, and its positions end at block_size = 16"),
        (Tokenizer.from_words(["word03"]), "word03", "4 words and the model 16"),
    ],
)
def test_a_prompt_that_the_model_cannot_read_is_refused(model, tokenizer, prompt, sentence):
    with pytest.raises(LabError, match=sentence):
        swap_softmax(model, tokenizer, prompt, (), exact_softmax, "cpu-any")


def test_the_model_is_left_as_it_was_even_when_the_kernel_fails(model):
    def broken(logits):
        raise RuntimeError("no device")

    with pytest.raises(RuntimeError, match="no device"):
        swap(model, broken)
    assert model.softmax is last_axis_softmax


def entry_of(name):
    with open(ROOT / "config.yaml") as file:
        return yaml.safe_load(file)["kernels"][name]


def test_without_triton_the_swap_falls_back_to_pytorch(monkeypatch):
    monkeypatch.setattr("minikernel.proof.kernel_swap.find_spec", lambda name: None)
    softmax, executed_by = kernel_for("cpu-any", "triton", entry_of("triton"))
    assert executed_by == "F.softmax"
    x = torch.randn(3, 7)
    assert torch.equal(softmax(x), F.softmax(x, dim=-1))


def test_cuda_c_on_a_cpu_falls_back_to_pytorch():
    assert kernel_for("cpu-any", "fused", entry_of("fused"))[1] == "F.softmax"


def test_a_kernel_of_the_user_comes_from_its_own_file(tmp_path):
    source = tmp_path / "mine.py"
    source.write_text("def softmax(x):\n    return x.softmax(-1)\n")
    kernel, executed_by = kernel_for("h200", "mine", {"source": str(source), "function": "softmax"})
    assert executed_by == "cuda"
    assert torch.equal(kernel(torch.eye(3)), torch.eye(3).softmax(-1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", [*LADDERS["CUDA C"], *LADDERS["Triton"]])
def test_each_lab_kernel_keeps_the_prediction_on_the_gpu(model, name):
    device = gpu_devices()[0]
    kernel, executed_by = kernel_for(device, name, entry_of(name))
    report = swap_softmax(model, TOKENIZER, PROMPT, (), kernel, device)
    assert executed_by == "cuda"
    assert not report["top1_changed"]


def test_past_simple_forms_come_from_the_lexicon(tmp_path):
    lexicon = tmp_path / "lexicon.yaml"
    lexicon.write_text("verbs: {motion: [{base: go, past: went}, {base: walk, past: walked}]}")
    assert past_simple_forms(lexicon) == {"went", "walked"}


@pytest.mark.parametrize("text", ["", "verbs: 3", "verbs: {motion: [{base: go}]}", "verbs: ["])
def test_a_lexicon_without_past_forms_is_refused(tmp_path, text):
    lexicon = tmp_path / "lexicon.yaml"
    lexicon.write_text(text)
    with pytest.raises(LabError, match=r"lexicon\.yaml has no verbs with a past form"):
        past_simple_forms(lexicon)


def test_what_the_swap_did_follows_from_all_probabilities():
    probabilities = {"cpu": [0.5, 0.3, 0.2], "before": [0.5, 0.3, 0.2], "after": [0.5, 0.25, 0.25]}
    stored = {"probabilities": probabilities, "after_to_before": {}, "after_to_cpu": {}, "top1_changed": True}
    stored |= {side: {"top": [{"word": "walked", "probability": 0.5}]} for side in probabilities}
    found = {each["where"]: each["again"] for each in differences(stored, computed_again(stored))}
    assert found["top1_changed"] == "False"
    assert found["after_to_cpu.max_abs_difference"] == "0.05"
    assert not any("top[" in where for where in found)
