"""Time what one student of a class has got right, when nothing else runs (rule time_student); no verdict changes."""

import logging
from pathlib import Path

from minikernel.exercise.grading.grade import in_a_process
from minikernel.exercise.grading.submissions import students
from minikernel.measure.caches import own_caches
from minilab import LabError
from minilab.device import torch_device
from minilab.files import read_object, write_json
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    student = students(str(job.params.folder))[job.wildcards.student]
    row = read_object(job.input.row)
    if row["marks"]:
        row = timed(student, row, job)
    write_json(job.output.row, row)
    speeds = {name: found["speed"] for name, found in row["exercises"].items() if found["speed"]}
    said = ", ".join(f"{name} {speed['ratio']:.3f} of what it is compared with" for name, speed in speeds.items())
    log.info("%s: %s", student.slug, said or "nothing was timed")


def timed(student, row, job):
    limits = {**job.params.limits, "device": torch_device(job.params.device), "bench": job.params.bench}
    with own_caches() as folder:
        try:
            return in_a_process("time", student, limits, Path(job.output.row).parents[1], folder, job.input.row)
        except LabError as ended:
            log.warning("%s has no times: %s", student.slug, ended)
            return row


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
