"""Files are whole or absent."""

import hashlib
import json

import pytest

from minilab import LabError
from minilab.files import read_json, replacing, sha256, write_json


def test_replacing_leaves_the_old_file_when_the_block_fails(tmp_path):
    path = tmp_path / "figure.png"
    path.write_text("old")

    def write_half():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["figure.png"]


def test_replacing_keeps_the_suffix_and_renames(tmp_path):
    with replacing(tmp_path / "deep" / "figure.svg") as temporary:
        assert temporary.suffix == ".svg"
        temporary.write_text("new")
    assert (tmp_path / "deep" / "figure.svg").read_text() == "new"


def test_two_writers_of_one_process_number_do_not_meet(tmp_path):
    path = tmp_path / "a.json"
    with replacing(path) as one, replacing(path) as other:  # as on two nodes that share a file system
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_json_round_trip_and_no_nan(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"µs": [1.5, None]})
    assert read_json(path) == {"µs": [1.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": float("nan")})
    assert json.loads(path.read_text()) == {"µs": [1.5, None]}


@pytest.mark.parametrize("content", [b'{"a": 1', b"\xff\xfe\x00"])
def test_broken_json_is_one_sentence(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(LabError, match="is not readable JSON"):
        read_json(path)


def test_missing_json_says_how_to_build_it(tmp_path):
    with pytest.raises(LabError, match="does not exist; build it with `snakemake"):
        read_json(tmp_path / "none.json")


def test_sha256_is_that_of_the_files_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"xy")
    assert sha256(path) == hashlib.sha256(b"xy").hexdigest()
    path.write_bytes(b"xz")
    assert sha256(path) != hashlib.sha256(b"xy").hexdigest()
