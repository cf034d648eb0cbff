"""Gather a class's marks: as a page, as a table for a spreadsheet, and as JSON (rule grade)."""

import logging
from pathlib import Path

from minikernel.exercise.grading.gradebook import as_csv, gradebook
from minikernel.report.grade_page import grade_page
from minilab.config.check import check_schema, read_schema
from minilab.files import read_object, write_json, write_text
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    rows = [read_object(path) for path in job.input.rows]
    if job.input.times:
        times = read_object(job.input.times)["times"]
        rows = [{**row, "exercises": row["exercises"] | times.get(row["slug"], {})} for row in rows]
    book = gradebook(Path(job.params.folder).resolve().name, rows)
    check_schema(book, read_schema("schemas/grades.schema.yaml"), "grades.json")
    write_json(job.output.grades, book)
    write_text(job.output.table, as_csv(book))
    write_text(job.output.page, grade_page(book, job.params.language))
    done = sum(row["done"] for row in book["students"])
    log.info("%d students, %d exercises done; %s shows them", len(rows), done, job.output.page)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
