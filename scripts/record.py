"""Publish this run's measurements, pictures and report as a record (rule record)."""

import logging
from pathlib import Path

from minikernel.ops.dispatch import write_table
from minilab.files import pack_json, read_json, write_bytes
from minilab.records.checksums import write_sums
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    for device in job.params.devices:
        measured = [path for path in map(Path, job.input.artefacts) if path.parent.name == device]
        published = []
        for path in [*measured, *map(Path, job.input.pictures)]:
            # results/25/minigpt/h200/profile.json is recorded as recorded/h200/25/minigpt/profile.json
            place = Path(*(part for part in path.parts[path.parts.index("results") + 1 :] if part != device))
            target = Path(job.params.recorded, device, place)
            if path.name == "capture.json":
                target = target.with_name("capture.json.xz")
                pack_json(path, target)
            else:
                write_bytes(target, path.read_bytes())
            published.append(target)
            log.info("%s -> %s", path, target)
        write_sums(Path(job.params.recorded, device), published)
        for tuning in (path for path in measured if path.stem == "autotune"):
            write_table(f"src/minikernel/ops/dispatch/{device}.json", read_json(tuning))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
