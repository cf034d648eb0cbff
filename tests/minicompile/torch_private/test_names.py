"""The private names of torch that the compiler's side leans on: where they are, and what is done when one is gone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import minicompile.torch_private
from minicompile.torch_private import around_a_watch, names
from minilab import LabError

PACKAGE = Path(minicompile.torch_private.__file__).parent
MODULES = {str(path.relative_to(PACKAGE.parent)): path for path in sorted(PACKAGE.parent.rglob("*.py"))}
WATCHING = PACKAGE.parent / "watching"  # it is made of looks at what torch keeps to itself
OTHERS = [name for name, path in MODULES.items() if not {PACKAGE, WATCHING} & {*path.parents}]
PRIVATE = re.compile(r"(?:.*\.)?_(?!_[a-z0-9_]+__$)\w+$")  # of a dotted name: its last part, dunders aside
PRIVATE_MODULE = re.compile(r"\btorch(?:\.\w+)*\._(?!_)\w+")


def installed_minor() -> str:
    return ".".join(torch.__version__.split(".")[:2])


def test_the_table_knows_the_torch_that_is_installed():
    assert installed_minor() in names.MINORS, (
        f"torch {torch.__version__} is of a minor version that torch_private/names.py does not know: run these tests, "
        f"mend what they find, and add {installed_minor()!r} to MINORS and to the names that it has."
    )


@pytest.mark.parametrize("name", names.NAMES)
def test_a_private_name_is_in_the_torch_that_is_installed_where_the_table_says_so(name: str):
    entry = names.NAMES[name]
    assert set(entry.minors) <= set(names.MINORS)
    if installed_minor() in entry.minors:
        names.owner(name)
    else:
        assert not entry.required, f"{entry.path} is required, and torch {installed_minor()} does not have it"
        assert names.missing(required_only=False).count(name) == 1


@pytest.mark.parametrize("minor", names.MINORS)
def test_every_supported_minor_has_all_that_is_required(minor: str):
    assert [name for name, entry in names.NAMES.items() if entry.required and minor not in entry.minors] == []


def test_no_name_of_the_table_is_unused():
    tables = {Path(module.__file__) for module in (names, around_a_watch)}
    used = "".join(path.read_text() for path in MODULES.values() if path not in tables)
    paths = {name: entry.path.replace(":", ".") for name, entry in names.NAMES.items()}
    words = {name: rf'"{name}"|\b{path.rpartition(".")[2]}\b' for name, path in paths.items()}
    unused = [name for name, word in words.items() if not re.search(word, used)]
    assert unused == []


def dotted(node: ast.AST) -> str | None:
    """`torch._dynamo.config` of the expression that reads so; None for one that does not begin with a name."""
    if isinstance(node, ast.Name):
        return node.id
    below = dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{below}.{node.attr}" if below and isinstance(node, ast.Attribute) else None


def own_names(trees: list[ast.Module]) -> set[str]:
    """All that the package itself defines under a name with an underscore: functions, classes, attributes, globals."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def private_of_torch(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Private names in a module's code that are not the package's own: imported, reached by dots or in a string."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if PRIVATE_MODULE.match(alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from (
                f"{node.module}.{alias.name}"
                for alias in node.names
                if PRIVATE_MODULE.match(f"{node.module}.{alias.name}")
            )
        elif isinstance(node, ast.Attribute) and PRIVATE.match(node.attr) and node.attr not in own:
            yield dotted(node) or node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from PRIVATE_MODULE.findall(node.value)


@pytest.fixture(scope="module")
def own() -> set[str]:
    return own_names([ast.parse(MODULES[name].read_text()) for name in OTHERS])


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_private_of_torch_is_named_outside_of_these_folders(name: str, own: set[str]):
    found = set(private_of_torch(ast.parse(MODULES[name].read_text()), own))
    assert found - {"os._exit", "sys._current_frames", "sys._getframe"} == set()


@pytest.mark.parametrize(
    "text",
    [
        "import torch._dynamo",
        "import torch\ntorch._inductor.config",
        "from torch.utils._pytree import tree_map",
        "from torch import _dynamo",
        "def f(model):\n    return model._call_impl()",
        "import importlib\nimportlib.import_module('torch._functorch.config')",
    ],
)
def test_a_private_name_of_torch_is_seen_however_it_is_reached(text: str):
    assert list(private_of_torch(ast.parse(text), set()))


def test_what_is_public_or_ones_own_is_none_of_torchs():
    text = '"""Of torch._dynamo."""\nimport torch\nclass A:\n    def _f(self): return self._f(torch.__version__)\n'
    assert list(private_of_torch(ast.parse(text), own_names([ast.parse(text)]))) == []


def test_a_name_that_is_gone_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setitem(names.NAMES, "gone", names.PrivateName("torch._inductor.ir:NoSuchNode.method", "nothing"))
    assert names.missing() == ["gone"]
    with pytest.raises(LabError, match=r"has no torch\._inductor\.ir\.NoSuchNode\.method, which the lab needs"):
        names.owner("gone")
