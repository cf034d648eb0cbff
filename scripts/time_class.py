"""Time what a class has got right, one student after the other, when nothing else runs (rule time_class)."""

import logging
from pathlib import Path

from minikernel.exercise.grading.grade import time_apart
from minikernel.measure.caches import own_caches
from minilab import LabError
from minilab.device import torch_device
from minilab.files import read_object, write_json
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    limits = {**job.params.limits, "device": torch_device(job.params.device), "bench": job.params.bench}
    marked = {row["slug"]: row for row in map(read_object, job.input.rows)}
    times = kept(job.output.times, limits, marked)
    waiting = [row for slug, row in marked.items() if row["marks"] and slug not in times]
    with own_caches():
        for row in time_apart(str(job.params.folder), waiting, limits, Path(job.output.times).parent):
            times[row["slug"]] = {name: row["exercises"][name] for name in marked[row["slug"]]["marks"]}
            write_json(job.output.times, {"limits": limits, "times": times})  # what is killed goes on from here
    write_json(job.output.times, {"limits": limits, "times": times})
    log.info("%d students timed, %d of them in earlier runs", len(times), len(times) - len(waiting))


def kept(path, limits, marked):
    """Student -> exercises that were timed before, in the same way and as they are now."""
    try:
        before = read_object(path)
    except LabError:
        return {}
    if before.get("limits") != limits:
        return {}
    now = {slug: {name: row["exercises"][name]["digest"] for name in row["marks"]} for slug, row in marked.items()}
    return {
        slug: cells
        for slug, cells in before["times"].items()
        if now.get(slug) == {name: cell["digest"] for name, cell in cells.items()}
    }


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
