"""Say which records are fresh, stale or altered (rule verify_records)."""

import logging
from collections import Counter
from pathlib import Path

from minicompile.recompute import RECOUNTS
from minilab import LabError
from minilab.config import read_schema
from minilab.records.checksums import NAME
from minilab.records.verify import table, verify
from minilab.script import run

log = logging.getLogger("minilab")
SCHEMAS = {"training": "port_training"}  # of stage 25; stage 17's has no record


def main(job):
    verdicts = []
    for folder in sorted(Path(job.params.recorded).iterdir()):
        for path in sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NAME):
            artefact = path.name.split(".json")[0]
            schema = Path(f"schemas/{SCHEMAS.get(artefact, artefact)}.schema.yaml")
            today = job.params.today.get(str(path))
            known = read_schema(schema) if ".json" in path.name and schema.exists() else None
            verdicts.append(verify(path, folder, known, today, RECOUNTS.get(artefact)))
    log.info("%s", table(verdicts))
    counted = Counter(verdict.state for verdict in verdicts)
    log.info("%s", ", ".join(f"{counted[state]} {state}" for state in ("fresh", "stale", "altered")))
    if counted["altered"]:
        names = ", ".join(verdict.path for verdict in verdicts if verdict.state == "altered")
        raise LabError(
            f"altered since they were published: {names}; bring them back with `git checkout {job.params.recorded}`, "
            "or measure again and publish with `snakemake record`."
        )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
