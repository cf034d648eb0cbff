"""Configurations that are written down: round trips, and one sentence for each that cannot be."""

import os
import re

import pytest

from minicompile import BucketConfig, CompileConfig
from minilab import ConfigError, LabError
from minimodel import MiniGPTConfig


def test_defaults_are_the_contract_s():
    cfg = CompileConfig()
    assert (cfg.enabled, cfg.mode, cfg.dynamic, cfg.backend, cfg.fullgraph) == (
        False,
        "default",
        None,
        "inductor",
        False,
    )
    assert (cfg.options, cfg.allowlist, cfg.blocklist, cfg.healthcheck) == (None, (), (), True)
    assert (cfg.fail_policy, cfg.smoketest_steps) == ("fallback_eager", 3)
    assert (BucketConfig().buckets, BucketConfig().pad_token_id) == ((256, 512, 1024, 2048), 0)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize(
    "cfg",
    [
        CompileConfig(enabled=True, dynamic=False, allowlist=["blocks.*"], options={"shape_padding": True}),
        CompileConfig(mode="max-autotune", fail_policy="raise", tolerance=1e-3, time_limit_seconds=None),
        BucketConfig(buckets=[8, 16], pad_token_id=3),
    ],
)
def test_a_file_gives_back_what_was_written(cfg, suffix, tmp_path):
    path = tmp_path / f"compile{suffix}"
    cfg.write(path)
    assert type(cfg).read(path) == cfg
    assert type(cfg).from_yaml(cfg.to_yaml()) == type(cfg).from_json(cfg.to_json()) == cfg


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"mode": "turbo"}, "CompileConfig.mode is 'turbo'; it must be one of default, reduce-overhead"),
        ({"moed": "default"}, "has no field 'moed'; did you mean 'mode'?"),
        ({"fail_policy": "ignore"}, "must be one of fallback_eager, raise"),
        ({"dynamic": "yes"}, "must be null"),
        ({"dynamic": 1}, "must be null"),
        ({"enabled": "yes"}, "must be true or false"),
        ({"backend": ""}, "name of a backend"),
        ({"options": [1]}, "mapping of Inductor's options"),
        ({"allowlist": "blocks.*"}, "a list of patterns"),
        ({"blocklist": [""]}, "none of them empty"),
        ({"smoketest_steps": 0}, "must be 1, 2 or 3"),
        ({"smoketest_steps": True}, "must be 1, 2 or 3"),
        ({"tolerance": 0}, "above zero"),
        ({"tolerance": float("nan")}, "above zero"),
        ({"time_limit_seconds": -1}, "above zero"),
    ],
)
def test_compile_config_refuses_in_one_sentence(fields, sentence):
    with pytest.raises(LabError) as caught:
        CompileConfig.from_dict(fields)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"buckets": []}, "at least one"),
        ({"buckets": [512, 256]}, "sorted from short to long"),
        ({"buckets": [256, 256]}, "without repeats"),
        ({"buckets": [0, 256]}, "above zero"),
        ({"buckets": [-8]}, "above zero"),
        ({"buckets": [8.5]}, "whole numbers"),
        ({"buckets": 256}, "a list of lengths"),
        ({"pad_token_id": -1}, "a token id"),
        ({"bucket": [1]}, "did you mean 'buckets'?"),
    ],
)
def test_bucket_config_refuses_in_one_sentence(fields, sentence):
    with pytest.raises(LabError) as caught:
        BucketConfig.from_dict(fields)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "read", "sentence"),
    [
        ("enabled: [", CompileConfig.from_yaml, "line 1.*mend the YAML there"),
        ("{", CompileConfig.from_json, "not readable JSON"),
        ("[1, 2]", CompileConfig.from_json, "no mapping"),
        ("- 1", CompileConfig.from_yaml, "no mapping"),
    ],
)
def test_text_that_is_no_configuration_is_refused(text, read, sentence):
    with pytest.raises(LabError, match=sentence):
        read(text)


NINES = "9" * 5000
MISWRITTEN = {
    "date.yaml": b"enabled: 2020-13-45\n",
    "deep.yaml": b"allowlist: " + b"[" * 5000 + b"]" * 5000,
    "deep.json": b"[" * 100_000,
    "huge.yaml": f"smoketest_steps: {NINES}\n".encode(),
    "huge.json": f'{{"smoketest_steps": {NINES}}}'.encode(),
    "hexadecimal.yaml": b"smoketest_steps: 0x" + b"f" * 9000,
    "sixties.yaml": b"smoketest_steps: " + b"1:" * 4000 + b"1",
    "encoding.yaml": "enabled: true\n".encode("utf-16"),
    "encoding.json": '{"mode": "café"}'.encode("latin-1"),
    "twice.yaml": b"enabled: true\nenabled: false\n",
    "number.json": b'{"tolerance": NaN}',
    "large.yaml": b"#" * (2 << 20),
    "character.json": b'{"mode": "\\ud800"}',
}


@pytest.mark.parametrize("name", MISWRITTEN)
def test_a_miswritten_file_is_one_sentence(name, tmp_path):
    (tmp_path / name).write_bytes(MISWRITTEN[name])
    with pytest.raises(ConfigError, match=re.escape(name)) as refused:
        CompileConfig.read(tmp_path / name)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to(path)])
def test_what_is_no_file_is_refused_and_not_waited_for(make, tmp_path):
    make(tmp_path / "compile.yaml")
    with pytest.raises(ConfigError, match=r"compile\.yaml (is no file|does not exist)"):
        CompileConfig.read(tmp_path / "compile.yaml")


@pytest.mark.parametrize("name", ["marked.yaml", "marked.json"])
def test_a_byte_order_mark_is_no_matter(name, tmp_path):
    (tmp_path / name).write_bytes('{"enabled": true}'.encode("utf-8-sig"))
    assert CompileConfig.read(tmp_path / name).enabled


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(LabError, match=r"absent\.yaml does not exist"):
        CompileConfig.read(tmp_path / "absent.yaml")


def test_a_field_that_was_set_wrong_later_is_refused_when_used():
    from minicompile import maybe_compile

    cfg = CompileConfig(enabled=True)
    cfg.mode = "turbo"
    with pytest.raises(LabError, match="mode is 'turbo'"):
        maybe_compile(None, cfg, None)


def test_what_cannot_be_configured_is_a_value_error_as_python_has_it():
    for build in (lambda: CompileConfig(mode="turbo"), lambda: BucketConfig(buckets=[]), lambda: MiniGPTConfig(0, 16)):
        with pytest.raises(ValueError, match=r"must be|make it") as caught:
            build()
        assert isinstance(caught.value, LabError)
