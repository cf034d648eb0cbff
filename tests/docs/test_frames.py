"""Code that people copy launches on its tensor's device and counts in 64 bits.

From 2^31 elements on a row times a stride in 32 bits is another address.
"""

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = (
    "README.md",
    "docs/**/*.md",
    "exercises/**/*.*",
    "notebooks/**/*.*",
    "examples/**/*.*",
    "src/**/templates/**/*.md",
    "src/minikernel/ops/ladder/*.py",
    "tests/minikernel/exercise/solutions/*.py",
)
OPERATION = re.compile(r"^\s*(%\S+) = (\S+) (.*?) : (?:.* -> )?(\S+)", re.M)  # of a line of Triton's IR
PRODUCT = "arith.muli"


def pieces(path):
    """The pieces of Python in a file: its blocks, its cells, or all of it."""
    if path.suffix not in (".md", ".ipynb", ".py"):
        return []
    text = path.read_text()
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    if path.suffix == ".ipynb":
        return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [text]


FOUND = {
    f"{path.relative_to(ROOT)} {number}": code
    for pattern in TEXTS
    for path in sorted(ROOT.glob(pattern))
    for number, code in enumerate(pieces(path))
    if "triton_helpers" not in code  # what Inductor wrote, to be read
}
TRITON = {name: code for name, code in FOUND.items() if "@triton.jit" in code}
CUDA = {name: code for name, code in FOUND.items() if "__global__" in code}


def kernels_of(code, tmp_path):
    """Every kernel of Triton in a piece of code, with its parameters: pointer, number or constant."""
    file = tmp_path / "frame.py"
    file.write_text(code)
    specification = importlib.util.spec_from_file_location("frame", file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for function in ast.walk(ast.parse(code)):
        if isinstance(function, ast.FunctionDef) and "triton.jit" in map(ast.unparse, function.decorator_list):
            calls = [call for call in ast.walk(function) if isinstance(call, ast.Call)]
            moved = [call.args[0] for call in calls if ast.unparse(call.func) in ("tl.load", "tl.store")]
            pointers = {re.match(r"\w+", ast.unparse(address))[0] for address in moved}  # `x + row * cols`: x
            constants = [a.arg for a in function.args.args if a.annotation and "constexpr" in ast.unparse(a.annotation)]
            names = [a.arg for a in function.args.args]
            kinds = {n: "constexpr" if n in constants else "*fp32" if n in pointers else "i32" for n in names}
            yield getattr(module, function.name), kinds


def products_in_32_bits(ir):
    """The lines of Triton's IR that multiply a program's number, or what was made of it, in 32 bits."""
    numbers, found = set(), []
    for line, (result, operation, operands, kind) in zip(
        (match[0] for match in OPERATION.finditer(ir)), OPERATION.findall(ir), strict=True
    ):
        of_number = operation == "tt.get_program_id" or any(o in numbers for o in re.findall(r"%[\w#]+", operands))
        if of_number and re.search(r"\bi32|xi32", kind):
            numbers.add(result)
            found += [line.strip()] if operation == PRODUCT else []
    return found


def ir_of(kernel, kinds):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = {name: 1024 for name, kind in kinds.items() if kind == "constexpr"}
    source = ASTSource(fn=kernel, signature=kinds, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True}).asm["ttir"]


def test_there_are_frames_to_look_at():
    assert any(name.startswith("exercises/README.md") for name in TRITON)
    assert any(name.startswith("exercises/README.md") for name in CUDA)


@pytest.mark.parametrize("name", TRITON)
def test_a_programs_number_is_multiplied_in_64_bits(name, tmp_path):
    pytest.importorskip("triton")
    kernels = list(kernels_of(TRITON[name], tmp_path))
    assert kernels
    for kernel, kinds in kernels:
        ir = ir_of(kernel, kinds)
        assert PRODUCT in ir
        assert products_in_32_bits(ir) == []


def test_one_that_counts_in_32_bits_is_found(tmp_path):
    pytest.importorskip("triton")
    code = next(code for name, code in TRITON.items() if name.startswith("exercises/README.md"))
    ((kernel, kinds),) = kernels_of(code.replace(".to(tl.int64)", ""), tmp_path)
    assert len(products_in_32_bits(ir_of(kernel, kinds))) == 2


@pytest.mark.parametrize("name", [name for name in {**TRITON, **CUDA} if not name.startswith("tests/")])
def test_a_launch_is_on_its_tensors_device(name):
    """Read in the source: a launch elsewhere needs two GPUs to be seen."""
    tree = ast.parse(FOUND[name])
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.With) and "device_of(" in ast.unparse(n.items[0])]
    guarded = {node for guard in guards for node in ast.walk(guard)}
    kernels = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and "triton.jit" in ast.unparse(n)}
    kernels |= {
        ast.unparse(n.targets[0])
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and "RawKernel" in ast.unparse(n.value)
    }
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    launches = [call for call in calls if ast.unparse(getattr(call.func, "value", call.func)) in kernels]
    assert launches
    assert guarded.issuperset(launches)


@pytest.mark.parametrize("name", CUDA)
def test_a_blocks_number_is_multiplied_in_64_bits(name):
    products = re.findall(r"(\S+ ?\S*)blockIdx\.\w \*", CUDA[name])
    assert products
    assert all(before.endswith("(long long)") for before in products)
