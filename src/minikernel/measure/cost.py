"""What a row softmax and the LM head before it cost by the count: bytes to move, operations to do."""

from functools import cache
from pathlib import Path

import yaml

HERE = Path(__file__).parent


@cache
def _operations() -> dict:
    return yaml.safe_load((HERE / "data/operations.yaml").read_text())


@cache
def _datasheets() -> dict:
    return yaml.safe_load((HERE / "data/datasheets.yaml").read_text())


def softmax_bytes(rows: int, cols: int, itemsize: int, direction: str = "forward") -> int:
    """The fewest bytes a softmax moves, `forward` or `backward`: each operand read once, each result written once."""
    # forward: one read, one write of each element; backward: two reads, one write
    price = _operations()[direction]
    return rows * cols * itemsize * (price["reads_per_element"] + price["writes_per_element"])


def softmax_flop(rows: int, cols: int, direction: str = "forward") -> int:
    """Floating-point operations of a softmax in one direction, by the prices in `data/operations.yaml`."""
    return rows * cols * sum(_operations()[direction]["flop_per_element"].values())


def linear_softmax_bytes(rows: int, features: int, cols: int, itemsize: int, fused: bool) -> int:
    """The fewest bytes softmax(h weight^T) moves, h (rows, features), weight (cols, features).

    Read are h and the weight, written are the probabilities; where the head is not `fused`, the logits are
    written and read besides.
    """
    # The floor of the fused head: h and the weight once in, the probabilities once out.
    moved = (rows * features + cols * features + rows * cols) * itemsize
    if fused:
        return moved
    price = _operations()["linear_softmax"]
    return moved + rows * cols * itemsize * (price["unfused_reads_per_logit"] + price["unfused_writes_per_logit"])


def linear_softmax_flop(rows: int, features: int, cols: int) -> int:
    """Floating-point operations of softmax(h weight^T): the product's and the softmax's."""
    # 128 operations a logit at 64 features, where the softmax has 5
    product = rows * features * cols * _operations()["linear_softmax"]["flop_per_product"]
    return product + softmax_flop(rows, cols)


def datasheet(device: str) -> dict | None:
    """The maker's promised peaks for a device slug; None for hardware whose datasheet is not in the data."""
    return _datasheets().get(device)
