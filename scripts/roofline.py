"""Draw the roofline of every device shown (rule roofline)."""

from minikernel.report.roofline import panel
from minikernel.report.roofline_plot import draw
from minilab.device import is_cpu
from minilab.files import replacing, write_json
from minilab.records.store import read_artefacts
from minilab.script import run


def main(job):
    heads = {head["provenance"]["device"]: head for head in read_artefacts(job.input.head, job.config)}
    panels = []
    for ceilings_path, bench_path in zip(job.input.ceilings, job.input.bench, strict=True):
        ceilings, bench = read_artefacts([ceilings_path, bench_path], job.config)
        device = bench["provenance"]["device"]
        headline = job.params.headline["cpu" if is_cpu(device) else "cuda"]
        panels.append(panel(ceilings, bench, headline, heads.get(device)))
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(sorted(panels, key=lambda drawn: is_cpu(drawn["device"])), png, svg, job.params.language)
    write_json(job.output.data, {"panels": panels})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
