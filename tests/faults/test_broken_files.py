"""Files that are not what they were: cut short, swapped, flipped, edited, from another version."""

import json
from pathlib import Path

import numpy as np
from declared_faults import check_says, fault
from tiny import TINY, TinyLab

from minilab.files import read_json, write_json
from minilab.records.checksums import write_sums
from minimodel.checkpoint import load_checkpoint, save_checkpoint

CHECKPOINT = "results/17/checkpoint.npz"
REFUSED = f"{CHECKPOINT} is refused as a checkpoint: "
AGAIN = f"; delete it and build it again with `snakemake --cores 4 {CHECKPOINT}`."
PORT_KEPT = "The port is not built on it, and no older port passes for one of it."


def refuses(lab: TinyLab, says: str) -> None:
    done = lab.run()
    assert done.returncode
    check_says(done.stdout, says)
    assert not (lab.root / "results/24/minigpt.safetensors").exists()
    assert lab.leftovers() == []


@fault("the checkpoint is cut short", REFUSED + "the file is truncated or damaged" + AGAIN, PORT_KEPT)
def test_a_truncated_checkpoint(tiny: TinyLab, says: str):
    path = tiny.root / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-100])
    refuses(tiny, says)


@fault("one bit of the checkpoint has flipped", REFUSED + "the file is truncated or damaged" + AGAIN, PORT_KEPT)
def test_a_flipped_bit(tiny: TinyLab, says: str):
    path = tiny.root / CHECKPOINT
    flipped = bytearray(path.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    path.write_bytes(flipped)
    refuses(tiny, says)


@fault(
    "another model's checkpoint lies in the place of this one's",
    f"{CHECKPOINT} is not the checkpoint that results/17/checkpoint.json describes: their digests differ{AGAIN}",
    PORT_KEPT,
)
def test_a_swapped_checkpoint(tiny: TinyLab, says: str):
    found = load_checkpoint(tiny.root / CHECKPOINT)
    arrays = {name: array + np.float32(0.01) for name, array in found.arrays.items()}
    save_checkpoint(tiny.root / CHECKPOINT, arrays, found.config, found.tokens)
    refuses(tiny, says)


@fault(
    "the lost checkpoint, after one of these sentences",
    None,
    "Deleted and built again, it is the same file byte for byte, and so is all that follows from it.",
)
def test_a_deleted_checkpoint_is_built_again_the_same(tiny: TinyLab, undisturbed: TinyLab):
    (tiny.root / CHECKPOINT).unlink()
    assert tiny.run(CHECKPOINT, *TINY[1:]).returncode == 0
    assert tiny.run().returncode == 0
    assert tiny.contents() == undisturbed.contents()


@fault(
    "a JSON file of the results is cut short",
    "results/17/checkpoint.json is not readable JSON (...); delete it and build it again with "
    "`snakemake results/17/checkpoint.json`.",
    "What is built from it is not built.",
)
def test_a_truncated_json(tiny: TinyLab, says: str):
    path = tiny.root / "results/17/checkpoint.json"
    path.write_text(path.read_text()[:-20])
    refuses(tiny, says)


FOLDER = "results/recorded/h200"
RECORD = f"{FOLDER}/24/ceilings.json"
RESTORED = "results/24/h200/ceilings.json"


def restores(lab: TinyLab, says: str) -> None:
    done = lab.run(RESTORED)
    assert done.returncode
    check_says(done.stdout, says)
    assert not (lab.root / RESTORED).exists()


def edit(lab: TinyLab, **changes) -> Path:
    """Publish the record as it is, then change it."""
    record = lab.root / RECORD
    write_sums(lab.root / FOLDER, [record])
    record.write_text(json.dumps({**read_json(record), **changes}))
    return record


@fault(
    "a record is edited by hand",
    f"the record {RECORD} is not what was published: its SHA-256 is not the one in {FOLDER}/SHA256SUMS; bring both "
    f"back with `git checkout {FOLDER}`, or measure it again on h200 and publish it with `snakemake record`.",
    "The edited figures are shown nowhere.",
)
def test_an_edited_record(tiny: TinyLab, says: str):
    edit(tiny, copy_gb_per_s=9000.0)
    restores(tiny, says)


@fault(
    "a record is of another version of the schema",
    f"{RECORD} has an unknown key 'copy_gib_per_s'; a record that another version of the lab published, or that was "
    "edited, does not fit; bring it back with git, or measure it again where its device is and publish it with "
    "`snakemake record`.",
    "Nothing of it is shown.",
)
def test_a_record_of_another_schema(tiny: TinyLab, says: str):
    record = tiny.root / RECORD
    write_json(record, {**read_json(record), "copy_gib_per_s": 3900.0})
    write_sums(tiny.root / FOLDER, [record])
    restores(tiny, says)


@fault(
    "records were edited, and somebody asks which",
    "altered since they were published: ...; bring them back with `git checkout results/recorded`, or measure again "
    "and publish with `snakemake record`.",
    "`snakemake verify_records` has listed each with its reason.",
)
def test_verify_records_names_the_altered(tiny: TinyLab, says: str):
    edit(tiny, copy_gb_per_s=9000.0)
    done = tiny.run("verify_records")
    assert done.returncode
    check_says(done.stdout, says)
    assert f"| {RECORD} | altered | its SHA-256 is not the one in SHA256SUMS |" in done.stdout
