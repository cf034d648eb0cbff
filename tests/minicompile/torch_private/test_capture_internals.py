"""The private names of torch that the capture leans on, and what is done when one is gone."""

import re
from pathlib import Path

import pytest

import minicompile.torch_private
from minicompile.torch_private import names
from minilab import LabError

PACKAGE = Path(minicompile.torch_private.__file__).parent


@pytest.mark.parametrize("name", names.NAMES)
def test_each_private_name_is_in_the_torch_that_is_installed(name):
    names.owner(name)


def test_no_name_of_the_table_is_unused():
    modules = [*PACKAGE.glob("*.py"), *PACKAGE.parent.glob("*.py"), PACKAGE.parents[1] / "paths.py"]
    used = "".join(path.read_text() for path in modules if path.name != "names.py")
    paths = {name: entry.path.replace(":", ".") for name, entry in names.NAMES.items()}
    words = {name: rf'"{name}"|\b{path.rpartition(".")[2]}\b' for name, path in paths.items()}
    unused = [name for name, word in words.items() if not re.search(word, used)]
    assert unused == []


@pytest.mark.parametrize("module", sorted(path.name for path in PACKAGE.parent.glob("*.py")))
def test_nothing_else_of_the_capture_names_torchs_private_modules(module):
    text = (PACKAGE.parent / module).read_text()
    assert re.findall(r"torch\._(?:inductor|dynamo|functorch|subclasses|guards)", text) == []


def test_a_name_that_is_gone_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setitem(names.NAMES, "gone", names.PrivateName("torch._inductor.ir:NoSuchNode.method", "nothing"))
    assert names.missing() == ["gone"]
    with pytest.raises(LabError, match=r"has no torch\._inductor\.ir\.NoSuchNode\.method, which the capture needs"):
        names.owner("gone")
