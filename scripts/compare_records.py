"""Hold what is measured now against the record of the same device (rule compare_records)."""

import logging
from pathlib import Path

from minilab import LabError
from minilab.records.artefact import artefact_at
from minilab.records.compare import figures, moved, only_in_one
from minilab.records.store import read_artefact, read_unedited
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    again = []  # the scripts whose measurement here is the one that the record holds
    for path in job.input.artefacts:
        entry, wildcards = artefact_at(path)
        record_path = entry.record(**wildcards)
        again_record = f"bring it back with `git checkout {record_path}`"
        record, measured = read_unedited(record_path, again_record), read_artefact(path, job.config)
        if record["provenance"]["date"] == measured["provenance"]["date"]:
            log.info("%s is the measurement that %s holds: not measured again", path, record_path)
            again.append(entry.script_on(wildcards["device"]))
        else:
            compare(Path(path).name, record_path, record, measured)
    if len(again) == len(job.input.artefacts):
        rules = sorted(rule for rule, script in job.params.rules.items() if script in again)
        raise LabError(
            "nothing was measured since the record was published; measure again with `snakemake --cores 4 "
            f"compare_records --forcerun {' '.join(rules)}`, or with some of these rules."
        )


def compare(name, record_path, record, measured):
    """Log which figures of one artefact moved beyond the noise."""
    try:
        before, after = figures(record), figures(measured)
    except KeyError as lacking:
        raise LabError(
            f"{record_path} holds no {lacking}, as an older version of the lab published it, so the noise of its "
            "figures is unknown; publish it anew with `snakemake record`."
        ) from None
    changes = moved(before, after)
    log.info(
        "%s, measured on %s: %d of %d figures moved beyond the noise of both",
        name, record["provenance"]["date"][:10], len(changes), len(before.keys() & after.keys()),
    )  # fmt: skip
    for line in [*changes, *only_in_one(before, after)]:
        log.info("  %s", line)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
