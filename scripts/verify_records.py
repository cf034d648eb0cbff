"""Say which records are fresh, stale or altered, and who signed them (rule verify_records)."""

import logging
from collections import Counter
from pathlib import Path

from minilab import LabError
from minilab.records.verify import signed, table, verify_device
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    verdicts, signatures = [], {}
    for folder in sorted(path for path in Path(job.params.recorded).iterdir() if path.is_dir()):
        found, signatures[folder] = verify_device(folder, job.params.config)
        verdicts += found
    log.info("%s", table(verdicts))
    counted = Counter(verdict.state for verdict in verdicts)
    log.info("%s", ", ".join(f"{counted[state]} {state}" for state in ("fresh", "stale", "altered")))
    for folder, signature in signatures.items():
        log.info("%s", signed(folder, signature))
    if counted["altered"]:
        names = ", ".join(verdict.path for verdict in verdicts if verdict.state == "altered")
        raise LabError(
            f"altered since they were published: {names}; bring them back with `git checkout {job.params.recorded}`, "
            "or measure again and publish with `snakemake record`."
        )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
