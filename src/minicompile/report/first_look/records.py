"""What the records hold, read for the first look, each with a word on whether it still holds."""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.profile.conclusions import profiled
from minicompile.watching.watched import checked
from minikernel.report.roofline import panel
from minilab import LabError
from minilab.files import read_object
from minilab.plan import Plan
from minilab.records.artefact import RECORDED
from minilab.records.params import kind_of
from minilab.records.provenance import provenances
from minilab.records.restore import restore


class Card(NamedTuple):
    """A device's kernels under its limits: `panel` as the roofline takes it, `of` what it follows from, by name."""

    panel: dict[str, Any]
    of: dict[str, dict]


class Recorded(NamedTuple):
    """What the first look shows of the records.

    Attributes:
        cards: of each device, GPUs first.
        capture, profile: of one model's compile on the first GPU, None where the record has none.
        model: `model.json` of that GPU, likewise.
        read: the path of each record -> what it holds, restored.
    """

    cards: list[Card]
    capture: Capture | None
    profile: dict[str, Any] | None
    model: dict[str, Any] | None
    read: dict[str, dict]


def is_checkout() -> bool:
    """Whether code lies here that records can be held against; elsewhere nothing tells if they are stale."""
    return Path("src").is_dir()


def recorded(config: dict) -> Recorded:
    """Read the records under `results/recorded`, those of devices that are here among them.

    Args:
        config: the whole configuration.

    Returns:
        What they hold; outside of a checkout `stale` is None in each.

    Raises:
        LabError: there are none, or one is not what was published, or stale where `records.stale` is `fail`.
    """
    plan = Plan(config, measured=[])
    judged = is_checkout()
    read: dict[str, dict] = {}
    of: dict[str, dict[str, dict]] = defaultdict(dict)  # device -> name of an artefact -> what its record holds
    for entry, at in plan.looked_at:
        path = entry.record(**at)
        if judged:
            measured_with = plan.measured_with(entry, at)
            today = {
                kernel: (params, entry.digests(config, {**at, "kernel": kernel}))
                for kernel, params in measured_with.items()
            }
        else:
            made = provenances(read_object(path))
            today = {kernel: (one["params"], one["sources"]) for kernel, one in made.items()}
        made = restore(path, entry, f"{RECORDED}/{at['device']}", today, config["records"]["stale"])
        if not judged:
            made["restored"]["stale"] = None
        read[path] = of[at["device"]][entry.name] = made
    headline = config["roofline"]["headline"]
    cards = [
        Card(panel(held["ceilings"], held["bench"], headline[kind_of(device)], held.get("head")), held)
        for device, held in of.items()
        if {"ceilings", "bench"} <= held.keys()
    ]
    if not cards:
        raise LabError(
            f"{Path(RECORDED).absolute()} holds no record; run it in the lab's folder, as `git clone` made it."
        )
    held = next((of[device] for device in plan.headline_gpu), {})
    capture = profile = None
    if watched := held.get("watched"):
        capture = as_capture(checked(watched, watched["restored"]["from"]))
        capture["provenance"] = watched["provenance"]
    if samples := held.get("profile_samples"):
        profile = {**profiled(samples), "restored": samples["restored"]}
    return Recorded(cards, capture, profile, held.get("model_contest"), read)
