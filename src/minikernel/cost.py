"""What a row softmax costs by the count: bytes that must move, operations that must be done."""

from functools import cache
from importlib.resources import files

import yaml


@cache
def _data(name: str) -> dict:
    return yaml.safe_load((files("minikernel") / "data" / f"{name}.yaml").read_text())


def softmax_bytes(rows: int, cols: int, itemsize: int, direction: str = "forward") -> int:
    """The fewest bytes a softmax moves, `forward` or `backward`: each operand read once, each result written once."""
    price = _data("operations")[direction]
    return rows * cols * itemsize * (price["reads_per_element"] + price["writes_per_element"])


def softmax_flop(rows: int, cols: int, direction: str = "forward") -> int:
    """Floating-point operations of a softmax in one direction, by the prices in `data/operations.yaml`."""
    return rows * cols * sum(_data("operations")[direction]["flop_per_element"].values())


def datasheet(device: str) -> dict | None:
    """The maker's promised peaks for a device slug; None for hardware whose datasheet is not in the data."""
    return _data("datasheets").get(device)
