"""The roofline model of one device: measured roofs, and where each kernel lies beneath them.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009): a kernel
that does I operations for each byte it moves runs at no more than min(peak, I x bandwidth).
"""

from minilab import LabError
from minilab.device import short_name


def ridge(bandwidth_gb_per_s: float, peak_tflop_per_s: float) -> float:
    """The intensity, in FLOP/byte, from which on arithmetic and no longer memory is the limit."""
    return peak_tflop_per_s * 1e3 / bandwidth_gb_per_s


def panel(ceilings: dict, bench: dict, headline: list[int]) -> dict:
    """What one panel of the picture shows, as plain data.

    Args:
        ceilings: a device's `ceilings.json`, measured or restored.
        bench: its `bench.json`.
        headline: [rows, cols] of the dots that carry labels.

    Returns:
        device, hardware name, roofs, datasheet, and one point a kernel with intensity (FLOP/byte), rate
        (TFLOP/s), time (microseconds), fraction of the copy, and whether it is stale or restored.

    Raises:
        LabError: the bench has no row at the headline shape.
    """
    rows = [row for row in bench["rows"] if [row["rows"], row["cols"]] == headline and row["direction"] == "forward"]
    made = bench["provenance"]
    if not rows:
        raise LabError(
            f"bench.json of {made['device']} has no row at the headline shape {headline}; add the shape to "
            f"bench.*.shapes, or choose another in roofline.headline."
        )
    gpu = made["hardware"]["gpu"]
    return {
        "device": made["device"],
        "name": short_name(gpu["name"] if gpu else made["hardware"]["cpu"]),
        "date": made["date"][:10],
        "restored": "restored" in bench,
        "stale_ceilings": ceilings.get("restored", {}).get("stale", False),
        "shape": headline,
        "dtype": rows[0]["dtype"],
        "roofs": {key: value for key, value in ceilings.items() if key.endswith(("gb_per_s", "tflop_per_s"))},
        "datasheet": ceilings["datasheet"],
        "points": [
            {
                "kernel": row["kernel"],
                "flop_per_byte": row["flop_per_byte"],
                "tflop_per_s": row["tflop_per_s"],
                "median_us": row["median_us"],
                "fraction_of_copy": row["fraction_of_copy"],
                "stale": row["stale"],
            }
            for row in sorted(rows, key=lambda row: row["median_us"])
        ],
    }
