"""The trained checkpoint that the package brings along, for `minigpt` to write from before the lab has built its own.

Beside it, in `minigpt.json`, stand its digest, how it was trained and how good it is, and the commands that train it
anew; the second of them is this module, which takes over what the first has built.
"""

import shutil
import sys
from importlib.resources import files
from pathlib import Path

from minilab import LabError
from minilab.files import read_object, replacing
from minilab.records.store import write_artefact
from minimodel.opening import load_checkpoint

BUILT = Path("results/17/checkpoint.npz")
SHIPPED = Path(str(files("minimodel") / "data/minigpt.npz"))
WEIGHTS = f"MiniGPT's weights (default: {BUILT} once it is built, else the package's own)"  # what a command's help says
COMMANDS = (f"snakemake --cores 4 {BUILT}", "python -m minimodel.writing.shipped")
JUDGED = ("held_out_cross_entropy", "conditional_entropy", "excess_percent", "seconds")  # of training.json


def at_hand() -> Path:
    """The lab's own checkpoint where it is built, in the current folder, and else the one that the package brings."""
    return BUILT if BUILT.exists() else SHIPPED


def ship(built: Path = BUILT, shipped: Path = SHIPPED) -> None:
    """Take a trained checkpoint over, with what is to be known of it.

    Args:
        built: the lab's own; `training.json` lies beside it.
        shipped: the file to write; its description gets the same name with `.json`.

    Raises:
        LabError: one of them is missing or is not what was written, or the model was trained on no vocabulary.
    """
    checkpoint, trained = load_checkpoint(built), read_object(built.with_name("training.json"))
    if checkpoint.tokens is None:
        raise LabError(f"{built} holds no vocabulary, and its ids are no words; build it with `{COMMANDS[0]}`.")
    described = {
        "digest": checkpoint.metadata["digest"],
        "parameters": sum(array.size for array in checkpoint.arrays.values()),
        **{name: trained[name] for name in JUDGED},
        "provenance": trained["provenance"],
        "again": list(COMMANDS),
    }
    with replacing(shipped) as path:
        shutil.copyfile(built, path)
    write_artefact(shipped.with_suffix(".json"), described)


if __name__ == "__main__":
    try:
        ship()
    except LabError as error:
        sys.exit(f"Error: {error}")
