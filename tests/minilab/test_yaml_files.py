"""YAML that somebody wrote is read without surprises, or refused in one sentence."""

from pathlib import Path

import pytest

from minilab import ConfigError
from minilab.yaml_files import LARGEST_YAML, parse_yaml, read_yaml


def test_yaml_is_read_as_ever(tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_bytes("\ufeffa: &x {b: [1, 2.5, 'ñ']}\nc: {<<: *x, b: 3}\n".encode())
    assert read_yaml(path) == {"a": {"b": [1, 2.5, "ñ"]}, "c": {"b": 3}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: 1\nb: 2\na: 3\n", r"line 3: the key 'a' stands twice"),
        (b"a: {b: 1, b: 2}\n", r"line 1: the key 'b' stands twice"),
        (b"a: 1\nb: caf\xe9\n", r"line 2: it is not UTF-8"),
        (b"a: [1\n", r"mend the YAML"),
        (b"a: " + b"[" * 100_000, r"nested too deeply|mend the YAML"),
        (b"a: !!python/name:os.system\n", r"mend the YAML"),
        (b" " * (LARGEST_YAML + 1), r"larger than 1 MiB"),
        (b"a: " + b"9" * 5000, r"not readable YAML|too large"),
        (b"a: 0x" + b"f" * 9000, r"line 1: the number there is too large"),
        (b"a: " + b"1:" * 4000 + b"1", r"line 1: the number there is too large"),
    ],
)
def test_yaml_that_cannot_be_meant_is_refused(tmp_path: Path, content: bytes, said: str):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as refusal:
        read_yaml(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a.yaml").write_text("a: 1")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may read everything
    with pytest.raises(ConfigError, match=r"a\.yaml is a file that you may not read"):
        read_yaml(tmp_path / "a.yaml")


def test_a_folder_is_no_yaml(tmp_path: Path):
    with pytest.raises(ConfigError, match="is no file"):
        read_yaml(tmp_path)
    with pytest.raises(ConfigError, match="mend the YAML"):
        parse_yaml("{", "argument")
