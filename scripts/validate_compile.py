"""Does `maybe_compile` keep its promises on this machine? A table of gates; status 1 when one fails.

By hand: `python scripts/validate_compile.py`; with `output.report=FILE` the verdicts are written as JSON too.
"""

from dataclasses import asdict

from minicompile.validate import run_gates, table
from minilab import LabError
from minilab.files import write_json
from minilab.records.provenance import versions
from minilab.script import run


def main(job) -> None:
    verdicts = run_gates()
    print(table(verdicts))
    report = job.output.get("report")
    if report:
        write_json(report, {"gates": [asdict(verdict) for verdict in verdicts], "versions": versions()})
    failed = [verdict.gate for verdict in verdicts if not verdict.passed]
    if failed:
        raise LabError(
            f"{len(failed)} of {len(verdicts)} gates failed, the first is {failed[0]!r}; see the table above."
        )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
