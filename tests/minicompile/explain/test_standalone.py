"""A kernel's script runs by itself, passes, and fails when the kernel is another one."""

import ast
import gzip
import json
import re
import subprocess

import pytest
from explored import DATA, tiny_head, tiny_head_simulated
from layered import layered

from minicompile.explain.explorer.payload import payload
from minicompile.explain.standalone import script
from minilab import LabError

GELU, NORM, SOFTMAX = (
    "cpp_fused_add_gelu_2",
    "cpp_fused_add_gelu_native_layer_norm_native_layer_norm_backward_4",
    "cpp_fused__softmax_0",
)


def run(python, folder, *texts):
    """Exit status and output of each script, run side by side."""
    started = []
    for number, text in enumerate(texts):
        path = folder / f"kernel_{number}.py"
        path.write_text(text)
        command, pipes = [python, path], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started.append(subprocess.Popen(command, text=True, **pipes))
    outputs = [process.communicate(timeout=300)[0] for process in started]
    return [(process.returncode, output) for process, output in zip(started, outputs, strict=True)]


@pytest.mark.parametrize(
    ("capture", "kernel", "right", "wrong"),
    [
        (layered, GELU, " + tmp", " - tmp"),
        (layered, NORM, " - tmp", " + tmp"),
        (tiny_head, SOFTMAX, " = tmp0 / tmp2", " = tmp0 * tmp2"),
    ],
)
def test_a_copied_kernel_passes_and_a_changed_one_does_not(forked_python, tmp_path, capture, kernel, right, wrong):
    text = script(capture(), kernel)
    head, body = text.split('extern "C"', 1)
    assert right in body.partition("''')")[0]
    changed = f'{head}extern "C"{body.replace(right, wrong, 1)}'
    (status, said), (changed_status, changed_said) = run(forked_python, tmp_path, text, changed)
    assert status == 0, said
    assert "float64" in said
    assert said.rstrip().endswith("PASSED")
    assert changed_status == 1
    assert "farther from float64" in changed_said


def test_a_kernel_that_writes_out_of_bounds_does_not_pass(forked_python, tmp_path):
    text = script(layered(), "cpp_fused_sum_1", graph="0.backward")
    changed = re.sub(
        r"(\n +)(tmp_acc0_vec\.store\(out_ptr0 \+ static_cast<int64_t>\(x0\)\);)", r"\1\2 out_ptr0[8] = 1;", text
    )
    assert changed != text
    ((status, said),) = run(forked_python, tmp_path, changed)
    assert status == 1
    assert "before or after its memory" in said


def test_what_the_capture_has_no_operations_for_is_checked_for_bounds_and_said_to_be():
    capture = json.loads(gzip.decompress((DATA / "in_place_cpu.json.gz").read_bytes()))
    text = script(capture, capture["graphs"][0]["kernels"][0]["name"])
    assert "def eager" not in text
    assert "check(kernel, MEMORY, 'cpu', None" in text


def test_a_triton_kernel_asks_for_a_gpu_and_is_python():
    capture = tiny_head_simulated()
    text = script(capture, capture["graphs"][0]["kernels"][0]["name"], language="es")
    ast.parse(text)
    assert "torch.cuda.is_available()" in text
    assert ".run(" in text
    assert "def eager" in text


def test_sizes_that_vary_and_unknown_names_are_refused_in_a_sentence():
    capture = tiny_head()
    with pytest.raises(LabError, match="has no kernel 'nothing'; it has cpp_fused__softmax_0"):
        script(capture, "nothing")
    code = next(pane for pane in capture["panes"] if pane["kind"] == "code")
    code["lines"] = [
        line.replace("empty_strided_cpu((2, 600), (600, 1)", "empty_strided_cpu((s0, 600), (600, 1)")
        for line in code["lines"]
    ]
    with pytest.raises(LabError, match="only known when the model runs"):
        script(capture, SOFTMAX)
    assert payload([capture], [None])["captures"][0]["graphs"][0]["kernels"][0]["script"] is None


@pytest.mark.parametrize("capture", [layered, tiny_head_simulated])
def test_the_page_can_put_each_script_together(capture):
    made = capture()
    data = payload([made], [None])
    shown = data["captures"][0]
    for graph in shown["graphs"]:
        pane = next(pane for pane in shown["panes"] if pane["id"] == graph["panes"]["code"])
        lines = [data["lines"][position] for position in pane["lines"]]
        for kernel in graph["kernels"]:
            parts = [
                part if isinstance(part, str) else "".join(f"{line}\n" for line in lines[part[0] - 1 : part[1]])
                for part in kernel["script"]
            ]
            assert "".join(parts) == script(made, kernel["name"], graph=graph["id"])
