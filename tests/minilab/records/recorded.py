"""A record to restore, to verify and to break: the ceilings of a device that stands in for a GPU."""

from pathlib import Path

from minikernel.measure.ceilings import Rate, ceilings_of
from minilab.files import write_json, write_text
from minilab.records.artefact import artefact
from minilab.records.checksums import write_sums
from minilab.records.provenance import provenance
from minilab.records.publish import PAGES
from minilab.records.store import write_artefact

DEVICE = "stand-in"
CEILINGS = artefact("ceilings")


def ceilings(path: Path, samples_us: list[float], date: str = "2026-01-02T03:04:05+00:00") -> Path:
    """The ceilings of the device, as the lab's own code of today would have measured them, in a file."""
    rates = {name: [] for name in ("tf32_tflop_per_s", "bf16_tflop_per_s")}
    rates |= {name: [Rate(8000, samples_us)] for name in ("copy_gb_per_s", "l2_gb_per_s", "fp32_tflop_per_s")}
    made = provenance(CEILINGS.sources({}, {"device": DEVICE}), {}, DEVICE) | {"date": date}
    samples = {name: [vars(rate) for rate in measured] for name, measured in rates.items()}
    found = {**ceilings_of(rates), "samples": samples, "cache_bytes": 1024, "datasheet": None}
    write_artefact(path, {"provenance": made, **found})
    return path


def record(folder: Path) -> Path:
    """A record of the device under `folder`/recorded, with a picture; returns the path of its ceilings."""
    path = ceilings(folder / "recorded" / DEVICE / "24/ceilings.json", [4.0, 4.1, 3.9] * 20)
    picture = path.with_name("roofline.svg")
    write_text(picture, "<svg/>")
    pages = path.parents[1] / PAGES
    write_json(pages, {"24/roofline.svg": provenance(["scripts/roofline.py"], {}, DEVICE)})
    write_sums(path.parents[1], [path, picture, pages])
    return path
