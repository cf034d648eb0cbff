"""Publish this run's measurements, pictures and report as a record (rule record)."""

import logging
from pathlib import Path

from minikernel.dispatch import write_table
from minilab.files import read_json, write_bytes
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    for device in job.params.devices:
        folder = Path(job.params.recorded, device, "24")
        measured = [path for path in map(Path, job.input.artefacts) if path.parent.name == device]
        for path in [*measured, *map(Path, job.input.pictures)]:
            write_bytes(folder / path.name, path.read_bytes())
            log.info("%s -> %s", path, folder / path.name)
        for tuning in (path for path in measured if path.stem == "autotune"):
            log.info("%s -> %s", tuning, write_table(device, read_json(tuning)))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
