"""The registry: names without imports, a user's kernel by file and function, clear refusals."""

import subprocess
import sys

import pytest
import torch

from minikernel import kernels, load_user_kernel, softmax
from minikernel.ops.registry import SPECS, TUNING, load_kernel, spec_of, user_spec
from minilab import LabError

RUNGS = {"naive", "smem", "warp", "fused", "triton_textbook", "triton", "loop", "vectors", "threads", "streaming"}
NAMES = {*RUNGS, "numpy", "F.softmax", "compile", "compile-max-autotune"}


def test_all_kernels_are_listed_by_name():
    assert set(kernels) == NAMES
    assert len(kernels) == len(NAMES)


def test_listing_kernels_imports_nothing_heavy():
    code = (
        "import sys; from minikernel import kernels; list(kernels); 'triton' in kernels; "
        "sys.exit(bool({'torch', 'triton', 'cupy', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_sources_exist_and_hold_the_function():
    for spec in SPECS.values():
        assert spec.function in spec.source.read_text()


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(KeyError, match=r"'fsed'.*fused"):
        kernels["fsed"]


@pytest.mark.parametrize("name", ["numpy", "F.softmax"])
def test_cpu_references_give_a_softmax(name):
    for x in (torch.randn(4, 600), torch.tensor(2.0)):
        torch.testing.assert_close(kernels[name](x), torch.softmax(x, -1), rtol=1e-5, atol=0)


def test_the_numpy_kernel_leaves_its_input_alone():
    x = torch.randn(4, 600)
    before = x.clone()
    kernels["numpy"](x)
    assert torch.equal(x, before)


def test_a_users_kernel_is_loaded_by_file_and_function(tmp_path):
    source = tmp_path / "mine.py"
    source.write_text("import torch\ndef twice(x):\n    return 2 * torch.softmax(x, -1)\n")
    entry = {"source": str(source), "function": "twice"}
    assert load_kernel("mine", entry)(torch.zeros(1, 2)).tolist() == [[1.0, 1.0]]
    assert spec_of("mine", entry) is None


def test_a_users_kernel_is_tuned_where_its_module_offers_what_tuning_needs(tmp_path):
    text = "import torch\ndef softmax(x, config=None):\n    return torch.softmax(x, -1)\n"
    (tmp_path / "plain.py").write_text(text)
    text += "".join(f"def {name}(*arguments):\n    return []\n" for name in TUNING)
    (tmp_path / "tunable.py").write_text(text)
    specs = [
        user_spec(name, {"source": str(tmp_path / f"{name}.py"), "function": "softmax"})
        for name in ("plain", "tunable")
    ]
    assert [spec.tuned for spec in specs] == [False, True]
    assert specs[1].load()(torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]
    assert set(kernels) == NAMES


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("def other(x):\n    return x\n", "no function 'softmax'; it defines other"),
        ("import nothing_of_that_name\n", "needs the module nothing_of_that_name, which is neither installed nor in"),
        ("def softmax(x:\n", "SyntaxError"),
        ("import sys\nsys.exit('no')\n", r"cannot be imported \(SystemExit: no\)"),
    ],
)
def test_a_users_kernel_that_cannot_be_loaded_is_named(tmp_path, text, words):
    source = tmp_path / "mine.py"
    if text is not None:
        source.write_text(text)
    with pytest.raises(LabError, match=words) as refusal:
        load_user_kernel("mine", str(source), "softmax")
    assert "kernel mine" in str(refusal.value)


def test_the_configurations_entries_lead_to_the_labs_kernels():
    assert spec_of("fused", {"source": "src/minikernel/ops/cuda/fused.cu", "function": "fused"}) is SPECS["fused"]
    triton = {"source": "src/minikernel/ops/softmax_triton.py", "function": "softmax"}
    assert spec_of("triton", triton) is SPECS["triton"]
    assert spec_of("F.softmax", None) is SPECS["F.softmax"]


def test_a_file_with_the_same_last_names_elsewhere_is_the_user_s_own(tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/softmax_triton.py").write_text("def softmax(x):\n    return x.softmax(-1)\n")
    entry = {"source": str(tmp_path / "ops/softmax_triton.py"), "function": "softmax"}
    assert spec_of("triton", entry) is None
    assert load_kernel("mine", entry)(torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]
    with pytest.raises(LabError, match="no launcher"):
        spec_of("fused", {"source": str(tmp_path / "ops/cuda/fused.cu"), "function": "fused"})


def test_cuda_c_without_a_launcher_is_refused():
    with pytest.raises(LabError, match="no launcher"):
        load_kernel("mine", {"source": "my_kernels/mine.cu", "function": "mine"})


def test_a_name_without_an_entry_is_refused():
    with pytest.raises(LabError, match="'mine' is neither"):
        load_kernel("mine", None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax_on_a_cpu_is_torchs_along_any_axis(dim, dtype):
    x = torch.randn(3, 5, 7, dtype=torch.float64).to(dtype)
    assert torch.equal(softmax(x, dim), torch.softmax(x, dim))


def test_an_axis_that_is_not_there_is_refused_as_torch_does():
    with pytest.raises(IndexError):
        softmax(torch.zeros(2, 3), dim=2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dim", [-1, 0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_softmax_on_a_gpu_agrees_with_torch_along_any_axis_and_strides(dim, dtype):
    for x in (torch.randn(3, 5, 7), torch.randn(7, 5, 3).permute(2, 1, 0), torch.randn(3, 5, 14)[..., ::2]):
        x = x.to("cuda", dtype)
        assert torch.allclose(
            softmax(x, dim), torch.softmax(x, dim), rtol=2e-2 if dtype.itemsize == 2 else 1e-5, atol=0
        )
    assert softmax(torch.tensor(3.0, device="cuda")).item() == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_softmax_on_a_gpu_keeps_gradients_and_refuses_a_wrong_axis():
    x = torch.randn(3, 5, device="cuda", requires_grad=True)
    softmax(x).square().sum().backward()
    assert x.grad.abs().sum() > 0
    with pytest.raises(IndexError):
        softmax(x.detach(), dim=2)
