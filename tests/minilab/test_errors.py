"""A sentence stays readable whatever it quotes."""

import pickle

import pytest

from minilab import ConfigError, LabError
from minilab.errors import LONGEST


@pytest.mark.parametrize("kind", [LabError, ConfigError])
def test_a_long_sentence_loses_its_middle(kind: type[LabError]):
    error = kind(f"a.npz lacks {'blocks, ' * 100_000}; port again.")
    assert len(str(error)) <= LONGEST
    assert str(error).startswith("a.npz lacks blocks")
    assert str(error).endswith("; port again.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_a_terminal_would_obey_is_spelled_out():
    assert str(LabError("the key '\x1b[2J\x00' is unknown.")) == r"the key '\x1b[2J\x00' is unknown."
    assert str(LabError("größtes 猫; naïve.\nA second line.")) == "größtes 猫; naïve.\nA second line."
    assert len(str(LabError("\x00" * 10_000))) <= LONGEST
