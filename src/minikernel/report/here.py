"""`roofline`: where softmaxes lie beneath the limits of this machine, measured now, in a call and a picture.

The workflow's bench proves each kernel first, times it longer and keeps every sample: what is published comes from
there. This one is for looking, in a notebook or a shell.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
import torch

from minikernel.measure.bench import REFERENCE, bench_kernel
from minikernel.measure.ceilings import SIZES, ceilings_of, copy_rate, large_copy, matrix_rate
from minikernel.measure.cost import datasheet
from minikernel.measure.cpu.bench import bench_on_cpu
from minikernel.measure.timing import last_level_cache_bytes
from minikernel.ops.ladder.table import kernels as by_name
from minikernel.report.roofline import panel
from minikernel.report.roofline_plot import draw
from minilab.device import cpu_device, cpu_name, slug

WARMUP, SEED = 2, 42


@dataclass(frozen=True)
class Roofline:
    """What `roofline` found; a notebook shows its picture.

    Attributes:
        panel: the limits and the points, as `minikernel.report.roofline.panel` gives them.
        rows: kernel -> its row as in `bench.json`: `median_us`, `gb_per_s`, `fraction_of_copy` and so on.
    """

    panel: dict
    rows: dict[str, dict]

    def save(self, path: str | Path) -> None:
        """Write the picture to a PNG file."""
        Path(path).write_bytes(self._repr_png_())

    def _repr_png_(self) -> bytes:
        # A notebook has a backend and a style of its own, for what else is drawn in it.
        backend = matplotlib.get_backend()
        with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context():
            png = Path(folder, "roofline.png")
            draw([self.panel], png, png.with_suffix(".svg"))
            matplotlib.use(backend)
            return png.read_bytes()


def roofline(
    kernels: Mapping[str, Callable[[torch.Tensor], torch.Tensor]],
    shape: tuple[int, int] = (4096, 600),
    *,
    device: str | torch.device | None = None,
    launches: int = 20,
) -> Roofline:
    """Measure this machine's limits, and kernels beside `F.softmax` beneath them, in float32.

    Args:
        kernels: name -> (rows, cols) tensor to its softmax over the last axis.
        shape: (rows, cols). A result that fits into a cache says nothing of the memory.
        device: `cpu` or `cuda:N`; the GPU by default, where there is one.
        launches: of each kernel that are timed, in turn.

    Raises:
        LabError: a kernel's result is wrong.
    """
    at = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    params = {"shapes": [list(shape)], "dtype": "float32", "launches": launches, "warmup": WARMUP, "seed": SEED}
    given = {REFERENCE: by_name[REFERENCE], **kernels}
    rows: list[Any]
    if at.type == "cpu":
        gpu, name = None, cpu_device()
        rows = [*bench_on_cpu(given, params, _silent)]
    else:
        gpu = {"name": torch.cuda.get_device_name(at)}
        name = slug(gpu["name"])
        rows = [
            row for kernel, softmax in given.items()
            for row in bench_kernel(kernel, softmax, _untuned, params, str(at), _silent)
        ]  # fmt: skip
    sizes = SIZES[at.type]
    rates = {
        "copy_gb_per_s": [large_copy(at)],
        "l2_gb_per_s": [copy_rate(int(last_level_cache_bytes(at) * sizes["cache_fraction"]), at, resident=True)],
        "fp32_tflop_per_s": [matrix_rate(sizes["matrix"], torch.float32, at)],
    }
    provenance = {"device": name, "hardware": {"cpu": cpu_name(), "gpu": gpu}, "date": datetime.now(UTC).isoformat()}
    bench = {"provenance": provenance, "rows": rows}
    ceilings = {**ceilings_of(rates), "datasheet": datasheet(name)}
    return Roofline(panel(ceilings, bench, list(shape)), {row["kernel"]: row for row in rows})


def _silent(_: str) -> None:
    pass


def _untuned(rows: int, cols: int) -> None:
    return None
