"""Files are whole or absent."""

import hashlib
import json
import lzma

import pytest

from minilab import LabError, files
from minilab.files import pack_json, read_json, read_object, replacing, sha256, write_json


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


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1',
        b"\xff\xfe\x00",
        b"",
        b"[" * 100_000,
        b'{"a": NaN}',
        b"[-Infinity]",
        b"1e999",
        b'"\\ud800"',
        b"9" * 5000,
    ],
)
def test_broken_json_is_one_sentence(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(LabError, match="is not readable JSON"):
        read_json(path)


def test_a_broken_record_is_not_built_again_but_brought_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json("results/recorded/a.json", [])
    with pytest.raises(LabError, match="bring it back with `git checkout results/recorded/a"):
        read_object("results/recorded/a.json")


def test_missing_json_says_how_to_build_it(tmp_path):
    with pytest.raises(LabError, match="does not exist; build it with `snakemake"):
        read_json(tmp_path / "none.json")


def test_sha256_is_that_of_the_files_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"xy")
    assert sha256(path) == hashlib.sha256(b"xy").hexdigest()
    path.write_bytes(b"xz")
    assert sha256(path) != hashlib.sha256(b"xy").hexdigest()


@pytest.mark.parametrize(
    ("content", "held"), [("null", "null"), ("[]", "a list"), ('"a"', "a text"), ("7", "a number"), ("true", "true or")]
)
def test_json_that_is_no_object_is_refused_where_one_is_needed(tmp_path, content, held):
    path = tmp_path / "a.json"
    path.write_text(content)
    assert read_json(path) == json.loads(content)
    with pytest.raises(LabError, match=f"holds {held}.* where a JSON object is needed"):
        read_object(path)


def test_json_that_is_too_large_is_refused_packed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_JSON", 1000)
    text = json.dumps([" " * 1000]).encode()
    for path, data in ((tmp_path / "a.json", text), (tmp_path / "a.json.xz", lzma.compress(text))):
        path.write_bytes(data)
        with pytest.raises(LabError, match="holds more than"):
            read_json(path)


@pytest.mark.parametrize("data", [b"no xz", lzma.compress(b"{}")[:-9], b""])
def test_broken_packed_json_is_one_sentence(tmp_path, data):
    path = tmp_path / "a.json.xz"
    path.write_bytes(data)
    with pytest.raises(LabError, match="is not readable JSON"):
        read_json(path)


def test_what_was_packed_is_read_as_it_was(tmp_path):
    source, packed = tmp_path / "a.json", tmp_path / "a.json.xz"
    source.write_text(json.dumps({"ö": [1, {"b": None}]}, indent=4))
    pack_json(source, packed)
    assert read_json(packed) == read_json(source)


def test_a_folder_is_no_json(tmp_path):
    with pytest.raises(LabError, match="is a folder"):
        read_json(tmp_path)
