"""Mark what one student of a class handed in (rule grade_student); whatever becomes of it, there is a row."""

import json
import logging
import subprocess
import sys
from pathlib import Path

from minikernel.exercise.exercises import graded
from minikernel.exercise.gradebook import not_marked, read_only
from minikernel.exercise.submissions import students
from minikernel.measure.caches import own_caches
from minilab import LabError
from minilab.device import torch_device
from minilab.files import read_object, write_json
from minilab.script import run

MARKING = "minikernel.exercise.grade"
log = logging.getLogger("minilab")


def main(job):
    student = students(str(job.params.folder))[job.wildcards.student]
    known = read_only(student)
    if len(known) == len(graded()):
        row = {"student": student.student, "slug": student.slug, "exercises": known}
    else:
        row = marked(student, job)
    write_json(job.output.row, row)
    marks = {name: found["verdict"] for name, found in row["exercises"].items()}
    log.info("%s: %s", student.slug, ", ".join(f"{name} {verdict}" for name, verdict in marks.items()))


def marked(student, job):
    limits = job.params.limits
    given = {
        "seconds": limits["time_limit_seconds"],
        "memory_bytes": int(limits["memory_gigabytes"] * 1e9),
        "timed": limits["timed"],
        "device": torch_device(job.params.device),
        "bench": job.params.bench,
        "workers": job.threads,
    }
    hidden = [str(Path(job.output.row).resolve().parents[1])]  # what others got
    with own_caches() as folder:
        made = folder / "row.json"
        arguments = [str(job.params.folder), student.slug, json.dumps(given), json.dumps(hidden), str(made)]
        done = subprocess.run(
            [sys.executable, "-m", MARKING, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if said := done.stdout.decode(errors="replace").strip():
            log.info("%s", said)
        try:
            return read_object(made)
        except LabError:
            return not_marked(
                student, f"the marking itself ended with exit status {done.returncode}; its log says where"
            )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
