"""What no kernel of the softmax's pattern can do better: `python benchmarks/softmax_floor.py [--search] [--json FILE]`.

Two shapes miss their bar of 97 % of a copy: 65,536 x 1,000 bfloat16 forward and 32,768 x 600 float32 backward. Here the
lab's kernel takes turns with two kernels that move the same bytes in the same pattern, with its blocks, threads, loads,
stores and cache hints, and compute nothing: one stores each vector as soon as it is there, the other waits until the
whole row is, as every softmax must. What the second takes is the floor of that pattern. The copy is one that no cache
helps, in the same process; a second timing of the lab's kernel shows the noise.

`--search` tries the waiting kernel in other patterns too: is there one whose floor lies above the bar?
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from minikernel.measure.ceilings import large_copy  # noqa: E402
from minikernel.measure.cost import softmax_bytes  # noqa: E402
from minikernel.measure.timing import measure, rotating_inputs  # noqa: E402
from minikernel.ops import softmax_cuda  # noqa: E402
from minikernel.ops.softmax_cuda_backward import backward_plan, softmax_backward  # noqa: E402
from minikernel.ops.softmax_fused import fused, fused_plan  # noqa: E402
from minilab import LabError  # noqa: E402

BAR = 0.97
WARMUP, LAUNCHES = 5, 200
AGAIN, COPY = "lab's kernel again", "copy of as many bytes"


class Shape(NamedTuple):
    direction: str
    rows: int
    cols: int
    dtype: torch.dtype


SHAPES = (Shape("forward", 65536, 1000, torch.bfloat16), Shape("backward", 32768, 600, torch.float32))


class Pattern(NamedTuple):
    """Threads of a row, 16-byte vectors of a thread, rows of a block, hints on loads and on stores."""

    threads: int
    vectors: int
    rows: int
    keep: bool
    stream: bool

    def __str__(self) -> str:
        hints = [name for name, given in (("evict last", self.keep), ("streamed", self.stream)) if given]
        return " ".join([f"{self.threads} threads x {self.vectors} vectors x {self.rows} rows", *hints])


def lab_pattern(shape: Shape) -> Pattern:
    """The pattern with which the lab's kernel takes a shape, from its launch plan."""
    if shape.direction == "forward":
        plan = fused_plan(shape.dtype, shape.cols, True)
    else:
        plan = backward_plan(shape.dtype, shape.rows, shape.cols, True, torch.cuda.current_device())
    found = re.fullmatch(r"(fused_short|backward_short|backward_block)<\w+, (\d+), (\d+), true>", plan.expression)
    if not found:
        raise LabError(
            f"{plan.expression} has a pattern that this benchmark does not copy; add it to softmax_floor.cu."
        )
    threads, vectors = int(found[2]), int(found[3])
    streamed = shape.direction == "backward" and threads >= 32  # as `store_gradient` is called
    return Pattern(threads, vectors, plan.rows, True, streamed)


def other_patterns(shape: Shape, own: Pattern) -> list[Pattern]:
    """The same row in other threads and blocks, and with other hints."""
    vectors = shape.cols * shape.dtype.itemsize // softmax_cuda.VECTOR_BYTES
    tried = [own._replace(keep=keep, stream=stream) for keep in (True, False) for stream in (True, False)]
    for threads, rows in ((32, 1), (32, 2), (32, 4), (32, 8), (64, 1), (96, 1), (128, 1), (160, 1), (192, 1)):
        each = -(-vectors // threads)
        tried += [Pattern(threads, each, rows, True, stream) for stream in (True, False)]
    return [pattern for pattern in dict.fromkeys(tried) if pattern != own]


@cache
def compiled(expression: str):
    """A kernel of softmax_floor.cu."""
    import cupy

    headers = ["common.cuh", "parts.cuh"]
    texts = [(softmax_cuda.HERE / "cuda" / name).read_text() for name in headers]
    text = "\n".join([*texts, Path(__file__).with_suffix(".cu").read_text()])
    module = cupy.RawModule(code=text, options=softmax_cuda.COMPILER_OPTIONS, name_expressions=(expression,))
    return module.get_function(expression).kernel


def mover(shape: Shape, pattern: Pattern, whole: bool) -> Callable:
    """What moves a shape's bytes in a pattern, as a provider for `measure`."""
    inputs = 1 if shape.direction == "forward" else 2
    flags = ", ".join(str(flag).lower() for flag in (whole, pattern.keep, pattern.stream))
    kernel = compiled(f"moved<{pattern.threads}, {pattern.vectors}, {pattern.rows}, {inputs}, {flags}>")
    vectors = np.int32(shape.cols * shape.dtype.itemsize // softmax_cuda.VECTOR_BYTES)
    blocks = -(-shape.rows // pattern.rows)

    def move(given) -> torch.Tensor:
        x, other = given if inputs == 2 else (given, given)
        y = softmax_cuda.allocate_like(x)
        stream = softmax_cuda.stream_of(torch._C._cuda_getCurrentRawStream(x.get_device()))
        arguments = (x.data_ptr(), other.data_ptr(), y.data_ptr(), shape.rows, vectors)
        kernel((blocks,), (pattern.threads * pattern.rows,), arguments, stream=stream)
        return y

    return move


def check_moves(shape: Shape, pattern: Pattern, whole: bool, given) -> None:
    """Stop unless a mover's result is what it was given, bit by bit."""
    pair = given if isinstance(given, tuple) else (given,)
    bits = [tensor.view(torch.int32) for tensor in pair]
    expected = bits[0] if len(bits) == 1 else bits[0] ^ bits[1]
    if not torch.equal(mover(shape, pattern, whole)(given).view(torch.int32), expected):
        raise LabError(f"the kernel that moves {shape} as {pattern} lost something; mend softmax_floor.cu.")


def measure_shape(shape: Shape, search: bool, ceiling: float) -> dict:
    """Microseconds and share of a copy's bandwidth of every provider, printed as they come."""
    device = torch.device("cuda")
    inputs: list = rotating_inputs(shape.rows, shape.cols, shape.dtype, device, seed=1)
    if shape.direction == "backward":
        rest = rotating_inputs(shape.rows, shape.cols, shape.dtype, device, seed=2)
        inputs = [(dy, torch.softmax(y, -1)) for dy, y in zip(inputs, rest, strict=True)]
        lab: Callable = lambda pair: softmax_backward(*pair)  # noqa: E731
    else:
        lab = fused
    pattern = lab_pattern(shape)
    moved = softmax_bytes(shape.rows, shape.cols, shape.dtype.itemsize, shape.direction)
    buffers = torch.empty((2, moved // 2), dtype=torch.uint8, device=device)
    providers = {"lab's kernel": lab, AGAIN: lab, COPY: lambda given: buffers[0].copy_(buffers[1])}
    providers |= {"moves": mover(shape, pattern, False), "moves whole rows": mover(shape, pattern, True)}
    patterns = {"moves": (pattern, False), "moves whole rows": (pattern, True)}
    if search:
        patterns |= {f"whole rows, {each}": (each, True) for each in other_patterns(shape, pattern)}
        providers |= {name: mover(shape, *which) for name, which in patterns.items()}
    for each, whole in patterns.values():
        check_moves(shape, each, whole, inputs[0])
    timed = measure(providers, inputs, WARMUP, LAUNCHES)
    print(f"\n{shape.rows:,} x {shape.cols:,} {shape.dtype} {shape.direction}; the lab's pattern: {pattern}")
    made = {}
    for name, timing in timed.items():
        share = moved / timing.median_us / 1e3 / ceiling
        low, high = (moved / timing.percentile(at) / 1e3 / ceiling for at in (80, 20))
        made[name] = {"median_us": timing.median_us, "graph_us": timing.graph_us, "fraction_of_copy": share}
        print(f"  {timing.median_us:8.2f} us  {share:6.1%} of a copy ({low:.1%} to {high:.1%})  {name}")
    own, floor = (made[name]["median_us"] for name in ("lab's kernel", "moves whole rows"))
    best = max(
        (entry["fraction_of_copy"], name) for name, entry in made.items() if name in patterns and name != "moves"
    )
    print(f"  the lab's kernel takes {own / floor:.3f} of the floor's time")
    print(f"  the bar is {BAR:.0%}; the highest floor {best[0]:.1%}: {best[1]}")
    return {
        "shape": [*shape[:3], str(shape.dtype)],
        "pattern": str(pattern),
        "ratio_to_floor": own / floor,
        "rows": made,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", action="store_true", help="other patterns too")
    parser.add_argument("--json", type=Path, help="write what was measured there")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise LabError("the softmax's floor is measured on a GPU, and there is none here; run it on one.")
    ceiling = large_copy(torch.device("cuda")).giga_per_s
    print(f"{torch.cuda.get_device_name()}: a large copy moves {ceiling:,.0f} GB/s, bytes read plus written")
    measured = [measure_shape(shape, arguments.search, ceiling) for shape in SHAPES]
    if arguments.json:
        arguments.json.write_text(json.dumps({"copy_gb_per_s": ceiling, "shapes": measured}, indent=1))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(str(error))
