"""Files of arrays are held to their claims before anything of a claimed size is made."""

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from minilab import LabError
from minilab.archives import npz_claims, safetensors_claims


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


def test_claims_are_read_without_the_arrays(tmp_path: Path):
    path = tmp_path / "a.npz"
    np.savez(path, metadata=np.frombuffer(b'{"a": 1}', np.uint8), x=np.zeros((2, 3), np.float32))
    claims, metadata = npz_claims(path)
    assert metadata == {"a": 1}
    assert {name: (claimed.dtype, claimed.shape) for name, claimed in claims.items()} == {"x": (np.dtype("f4"), (2, 3))}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no array", "is no array of NumPy's"),
        (b"", "is no array of NumPy's"),
        (header("(" * 5000), "is no array of NumPy's"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"), "not what its bytes make"),
        (npy(np.array([{}], object)), "pickled objects"),
    ],
)
def test_a_member_that_is_no_plain_array_is_refused(tmp_path: Path, content: bytes, said: str):
    with pytest.raises(LabError, match=said):
        npz_claims(npz(tmp_path / "a.npz", {"x.npy": content}))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_refused_before_they_are_inflated(tmp_path: Path, method: int):
    path = npz(tmp_path / "a.npz", {"x.npy": npy(np.zeros(10_000_000, np.uint8))}, method)
    with pytest.raises(LabError, match="claims to hold more than its bytes can"):
        npz_claims(path)
    with pytest.raises(LabError, match="is compressed"):
        npz_claims(npz(path, {"x.npy": npy(np.frombuffer(np.random.default_rng(0).bytes(500), np.uint8))}, method))


def test_an_encrypted_member_is_refused(tmp_path: Path):
    path = npz(tmp_path / "a.npz", {"x.npy": npy(np.zeros(3))})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(LabError, match="is encrypted"):
        npz_claims(path)


def test_metadata_that_is_nested_too_deeply_is_refused(tmp_path: Path):
    deep = npy(np.frombuffer(b"[" * 100_000, np.uint8))
    with pytest.raises(LabError, match="no readable metadata"):
        npz_claims(npz(tmp_path / "a.npz", {"metadata.npy": deep}))


def safetensors(path: Path, described: dict, weights: bytes = bytes(8), length: int | None = None) -> Path:
    encoded = json.dumps(described).encode()
    path.write_bytes(struct.pack("<Q", len(encoded) if length is None else length) + encoded + weights)
    return path


X = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_a_safetensors_file_is_described(tmp_path: Path):
    path = safetensors(tmp_path / "a", {"__metadata__": {"config": "{}"}, "x": X})
    claims, metadata, begins = safetensors_claims(path)
    assert claims["x"].shape == (2,)
    assert metadata == {"config": "{}"}
    assert begins["x"] == path.stat().st_size - 8


@pytest.mark.parametrize(
    ("change", "length"),
    [
        ({}, 10**12),
        ({"shape": [10**12]}, None),
        ({"shape": [-2]}, None),
        ({"shape": 2}, None),
        ({"data_offsets": [0, 10**12]}, None),
        ({"data_offsets": [0]}, None),
        ({"shape": [4], "data_offsets": [0, 16]}, None),
    ],
)
def test_a_safetensors_file_that_claims_too_much_is_refused(tmp_path: Path, change: dict, length: int | None):
    with pytest.raises(LabError, match="not a whole safetensors file"):
        safetensors_claims(safetensors(tmp_path / "a", {"x": {**X, **change}}, length=length))


@pytest.mark.parametrize("claims", [npz_claims, safetensors_claims])
def test_what_is_no_file_is_never_opened(tmp_path: Path, claims):
    with pytest.raises(LabError, match="it is no file"):
        claims(tmp_path)
    with pytest.raises(LabError, match="does not exist"):
        claims(tmp_path / "none")
