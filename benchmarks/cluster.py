"""How many students one GPU serves: GPU minutes of each job, and how long a student waits for it.

    python benchmarks/cluster.py                        # the waits, for jobs of 1, 2 and 12 minutes on one GPU
    python benchmarks/cluster.py --gpus 4 --minutes 3   # four GPUs, a job of three minutes
    python benchmarks/cluster.py --logs logs --device h200   # first, what each rule took in a run that was logged

The minutes come from the benchmark files that Snakemake writes beside each log; the waits from queueing.
"""

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

from queueing import last_start, mean_wait

from minilab import LabError

LOADS = (0.2, 0.5, 0.7, 0.8, 0.9, 0.95)


def seconds_by_rule(logs: Path, device: str) -> dict[str, float]:
    """Seconds that the jobs of each rule took on a device, summed, from logs/{stage}/.../{device}/**.tsv.

    Raises:
        LabError: there is no benchmark file of that device.
    """
    seconds = defaultdict(float)
    for folder in logs.rglob(device):
        for file in folder.rglob("*.tsv"):
            rule = file.relative_to(folder).parts[0].removesuffix(".tsv")
            with file.open() as lines:
                seconds[rule] += sum(float(row["s"]) for row in csv.DictReader(lines, delimiter="\t"))
    if not seconds:
        raise LabError(f"{logs} has no benchmark of {device}; run the lab there first, or name another --device.")
    return dict(seconds)


def print_waits(minutes: float, gpus: int, students: int) -> None:
    print(f"\na job of {minutes:g} min, {gpus} GPU{'s' * (gpus > 1)}: mean wait by load")
    for load in LOADS:
        jobs = 60 * load * gpus / minutes
        print(f"  {load:4.0%} busy  {jobs:7.1f} jobs/h   wait {mean_wait(minutes, load, gpus):6.1f} min")
    print(f"  {students} at the same moment: the last one starts after {last_start(minutes, students, gpus):.0f} min")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 2, 12], help="how long a job holds a GPU")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--students", type=int, default=50)
    parser.add_argument("--logs", type=Path, help="the logs folder of a run on the device")
    parser.add_argument("--device", default="h200")
    arguments = parser.parse_args()
    if arguments.logs:
        seconds = seconds_by_rule(arguments.logs, arguments.device)
        for rule, took in sorted(seconds.items(), key=lambda pair: -pair[1]):
            print(f"{rule:20s} {took:8.1f} s")
        print(f"{'all':20s} {sum(seconds.values()):8.1f} s")
    for minutes in arguments.minutes:
        print_waits(minutes, arguments.gpus, arguments.students)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"Error: {error}")
