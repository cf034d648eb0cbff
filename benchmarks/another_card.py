"""What this GPU's times of the same kernels say, beside a recorded card: `python benchmarks/another_card.py [DEVICE]`.

Expected are two times of each kernel, from the record of DEVICE (h200): one if it waits for memory, one if it waits in
the multiprocessors (`docs/concepts/two_cards.md`). What is measured here, a copy and the kernels, says which.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch  # noqa: E402
import yaml  # noqa: E402

from docs.build.facts.card_facts import KERNELS, card_of  # noqa: E402
from minikernel.measure.cost import softmax_bytes  # noqa: E402
from minikernel.ops.dispatch.dispatch import HAS_CUDA_C  # noqa: E402
from minikernel.ops.ladder.table import LADDERS, kernels  # noqa: E402
from minikernel.report.here import roofline  # noqa: E402
from minikernel.report.two_cards import Card, expected, waits_for  # noqa: E402
from minilab import LabError  # noqa: E402
from minilab.device import nvidia_smi  # noqa: E402
from minilab.records.artefact import RECORDED  # noqa: E402

HEADLINE = yaml.safe_load((ROOT / "config.yaml").read_text())["roofline"]["headline"]["cuda"]


def this_card(copy_gb_per_s: float) -> Card:
    """What the first GPU says of itself, with a copy that was measured."""
    clock = nvidia_smi()[0]["clocks.max.sm"].split()[0]
    return Card(copy_gb_per_s, torch.cuda.get_device_properties(0).multi_processor_count, float(clock))


def table(recorded: dict, here: Card, measured: dict[str, float]) -> list[str]:
    """The lines that are printed: of each kernel that both cards have, its times, and what it waits for here."""
    rows, cols = HEADLINE
    of = Card(*(recorded[field] for field in Card._fields))
    lines = [
        f"a copy: {here.copy_gb_per_s:,.0f} GB/s here, {of.copy_gb_per_s:,.0f} on {recorded['name']}",
        f"{'kernel':16} {'there':>9} {'if memory':>10} {'if multiprocessors':>19} {'here':>9}  waits for",
    ]
    for kernel in (name for name in KERNELS if name in measured and name in recorded["kernels"]):
        there = recorded["kernels"][kernel]["us"]
        told = expected(there, softmax_bytes(rows, cols, 4), of, here)
        times = f"{there:9,.0f} {told.memory:10,.0f} {told.multiprocessors:19,.0f} {measured[kernel]:9,.0f}"
        lines.append(f"{kernel:16} {times}  {waits_for(measured[kernel], told)}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the table; 1 where there is no GPU or no such record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("device", nargs="?", default="h200", help="whose record to compare with")
    try:
        record = ROOT / RECORDED / parser.parse_args(arguments).device / "24"
        if not (record / "bench.json").exists():
            raise LabError(f"there is no record of {record.parent.name}; `ls {RECORDED}` says what there is.")
        if not torch.cuda.is_available():
            raise LabError("these kernels need a CUDA device, and there is none here.")
        names = [name for name in KERNELS if HAS_CUDA_C or name not in LADDERS["CUDA C"]]
        found = roofline({name: kernels[name] for name in names}, tuple(HEADLINE))
    except LabError as error:
        print(f"another_card: {error}", file=sys.stderr)
        return 1
    measured = {name: row["median_us"] for name, row in found.rows.items()}
    copy = found.panel["ceilings"]["copy_gb_per_s"]
    print("\n".join(table(card_of(record, HEADLINE), this_card(copy), measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
