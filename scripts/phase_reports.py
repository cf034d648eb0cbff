"""Write the pages that close phases 24 and 25 (rule phase_reports)."""

import os
from pathlib import Path

from minicompile.phase_reports import checks_24, checks_25, phase_report
from minilab.files import read_json, write_text
from minilab.script import run


def main(job):
    def beside(output, path):
        return os.path.relpath(path, Path(output).parent)

    first, second = job.output.phase_24, job.output.phase_25
    write_text(
        first,
        phase_report(
            24,
            "Triton and PyTorch",
            checks_24(read_json(job.input.manifest_24), read_json(job.input.training)),
            {"Each dot is a softmax kernel; none can lie above the line over it": beside(first, job.input.roofline)},
            {"the report": beside(first, job.input.report_24), "the manifest": beside(first, job.input.manifest_24)},
        ),
    )
    home = Path(job.input.manifest_25).parent
    pages = {"the report": home / "REPORT.md", "the survey": home / "DISTRIBUTED.md"}
    pages["the manifest"] = job.input.manifest_25
    write_text(
        second,
        phase_report(
            25,
            "torch.compile and distributed training",
            checks_25(read_json(job.input.manifest_25), [read_json(path) for path in job.input.distributed]),
            {},
            {name: beside(second, path) for name, path in pages.items()},
        ),
    )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
