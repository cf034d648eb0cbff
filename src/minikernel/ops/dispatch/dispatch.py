"""Which kernel `minikernel.softmax` launches on a GPU: a table made by tuning, and a default beyond it.

`tables/{device}.json`, small enough to read, says for each shape that was tuned on a device which of
`fused` and `triton` was faster there; `dispatch_table` makes it of autotune's log, which has the times: with them
here, each tuning would stale what was measured by the same choices. At a width that it holds, the nearest
number of rows decides. Any other width, and a device that nobody tuned, gets `fused`, whose layouts follow from
the device's shared memory and clusters; or where CuPy is missing, which compiles it, the Triton kernel in its
default configuration, but for long rows of 16 bits.
"""

import functools
import math
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch

from minilab.device import slug
from minilab.files import read_json, write_json

HAS_CUDA_C = find_spec("cupy") is not None  # which compiles the CUDA C kernels
HERE = Path(__file__).parent
TABLES = "tables/*.json"  # one for each device that was tuned, by its slug


class Choice(NamedTuple):
    """A kernel of the registry, and for `triton` the configuration to launch, None for its default."""

    kernel: str
    config: dict[str, int] | None = None


def dispatch_table(tuning: dict) -> list[dict]:
    """Make a device's table out of its tuning.

    Args:
        tuning: `autotune.json`, as `minikernel.measure.autotune.autotune` returns it.

    Returns:
        For each tuned shape and dtype: rows, cols, dtype, the kernel to launch and its config (None for the default).
    """
    return [
        {
            "rows": choice["rows"],
            "cols": choice["cols"],
            "dtype": choice["dtype"],
            "kernel": choice["faster"],
            # `fused` has its layouts by width (softmax_fused.py) and takes no configuration
            "config": choice["config"] if choice["faster"] == tuning["kernel"] else None,
        }
        for choice in tuning["choices"]
    ]


def write_table(path: str | Path, tuning: dict) -> None:
    """Write `dispatch_table` of a tuning to a file, `.../{device}.json`."""
    write_json(path, dispatch_table(tuning))


@functools.cache
def table(device: str, folder: Path = HERE) -> list[dict]:
    """Read the table of a device, by its slug; empty for one that nobody tuned."""
    tables = {path.stem: path for path in folder.glob(TABLES)}
    return list(read_json(tables[device])) if device in tables else []


def choose(entries: list[dict], dtype: torch.dtype, rows: int, cols: int, cuda_c: bool) -> Choice:
    """The choice for (rows, cols) from a table; dtypes of one size are alike. `cuda_c`: CuPy is here."""
    # Only the exact width: what is best changes from one width to the next, with alignment and tiles.
    tuned = [e for e in entries if e["cols"] == cols and getattr(torch, e["dtype"]).itemsize == dtype.itemsize]
    if tuned:
        # nearest by ratio: 64 and 512 rows differ as much as 4,096 and 32,768
        entry = min(tuned, key=lambda e: abs(math.log(e["rows"] / max(rows, 1))))
        if cuda_c or entry["kernel"] == "triton":
            return Choice(entry["kernel"], entry["config"])
    return Choice("fused") if cuda_c else Choice("triton", looped(cols, dtype.itemsize))


def looped(cols: int, itemsize: int) -> dict[str, int] | None:
    """A configuration for rows that Triton's default would loop over with 32 warps, where another is faster.

    Measured on an H200 at 131,072 columns: programs of 16 warps took 2.2 % less in bfloat16, 6 % more in float32.
    """
    # where this is asked, Triton is there
    from minikernel.ops.softmax_triton_configs import default_config, fits

    default = default_config(cols, itemsize)
    if itemsize == 4 or fits(cols, default, itemsize):
        return None
    return {"BLOCK": 2048, "ROWS": 1, "num_warps": 16}


# Bounded, because the number of rows is in the key and need not ever come twice.
@functools.lru_cache(maxsize=4096)
def choice(dtype: torch.dtype, rows: int, cols: int, device: int) -> Choice:
    """The kernel for rows of `cols` of a dtype on CUDA device number `device`."""
    entries = table(slug(torch.cuda.get_device_name(device)))
    return choose(entries, dtype, rows, cols, HAS_CUDA_C)
