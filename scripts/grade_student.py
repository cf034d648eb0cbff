"""Mark what one student of a class handed in (rule grade_student); whatever becomes of it, there is a row."""

import logging
from pathlib import Path

from minikernel.exercise.exercises import graded
from minikernel.exercise.grading.grade import mark_apart
from minikernel.exercise.grading.gradebook import not_marked, read_only, row_of_student
from minikernel.exercise.grading.submissions import students
from minikernel.measure.caches import own_caches
from minilab import LabError
from minilab.device import torch_device
from minilab.files import write_json
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    student = students(str(job.params.folder))[job.wildcards.student]
    known = read_only(student)
    row = row_of_student(student, known) if len(known) == len(graded()) else marked(student, job)
    write_json(job.output.row, row)
    marks = {name: found["verdict"] for name, found in row["exercises"].items()}
    log.info("%s: %s", student.slug, ", ".join(f"{name} {verdict}" for name, verdict in marks.items()))


def marked(student, job):
    limits = {**job.params.limits, "device": torch_device(job.params.device), "workers": job.threads}
    with own_caches():
        try:
            return mark_apart(student, limits, Path(job.output.row).parents[1])
        except LabError as ended:
            return not_marked(student, str(ended))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
