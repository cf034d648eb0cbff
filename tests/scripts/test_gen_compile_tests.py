"""The script writes a test file for a model of the user's own, and the file holds the model to it."""

import pytest

from scripts import gen_compile_tests

MODEL = '''
import torch

class Branch(torch.nn.Module):
    """A model that computes something else under a compiler."""

    def __init__(self, honest):
        super().__init__()
        self.linear, self.honest = torch.nn.Linear(4, 4), honest

    def forward(self, x):
        y = self.linear(x)
        return y if self.honest or not torch.compiler.is_compiling() else 2 * y

def make():
    return Branch(True), (torch.ones(2, 4),)

def sneaky():
    return Branch(False), (torch.ones(2, 4),)

def ids():
    return torch.nn.Embedding(9, 4), (torch.zeros(2, 6, dtype=torch.int64),)

def named():
    return torch.nn.Bilinear(4, 4, 2), (torch.ones(2, 4),), {"input2": torch.ones(2, 4)}

def function():
    return torch.sin, (torch.ones(2),)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def namespace_of(path) -> dict:
    namespace: dict = {"__name__": "generated"}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace


@pytest.mark.parametrize(("factory", "tried"), [("named", 3), ("make", 1)])  # inputs by name, and by place alone
def test_a_file_of_more_than_a_hundred_cases_each_a_sentence(folder, capsys, factory, tried):
    out = folder / "test_model.py"
    assert gen_compile_tests.main([f"model.py:{factory}", str(out)]) == 0
    generated = namespace_of(out)
    names = [str(case) for case in generated["CASES"]]
    assert len(set(names)) == len(names) >= 100
    assert f"{len(names)} cases" in capsys.readouterr().out
    for name in (
        "it compiles with aot_eager, mode default, automatic shapes",
        "a backend that is one per cent off is survived, mode default, automatic shapes",
        "a backend that refuses is raised, mode default, fixed shapes",
    )[:tried]:
        generated["test_compile"](generated["CASES"][names.index(name)])


def test_a_model_that_cheats_fails_its_file(folder):
    out = folder / "test_model.py"
    gen_compile_tests.main(["model.py:sneaky", str(out)])
    generated = namespace_of(out)
    with pytest.raises(AssertionError, match="numerics"):
        generated["test_compile"](generated["CASES"][0])


def test_token_ids_get_buckets(folder):
    out = folder / "test_model.py"
    gen_compile_tests.main(["model.py:ids", str(out)])
    assert any(case.buckets for case in namespace_of(out)["CASES"])


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("model.py:function", "wrap it in an nn.Module"),
        ("model.py:nobody", "nobody"),
        ("nowhere.py:make", "nowhere.py"),
    ],
)
def test_what_cannot_be_is_one_sentence(folder, capsys, model, says):
    assert gen_compile_tests.main([model, str(folder / "test_model.py")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert says in said
    assert len(said.splitlines()) == 1
    assert not (folder / "test_model.py").exists()


def test_a_file_that_is_there_is_kept(folder, capsys):
    (folder / "test_model.py").write_text("mine")
    assert gen_compile_tests.main(["model.py:make", str(folder / "test_model.py")]) == 1
    assert (folder / "test_model.py").read_text() == "mine"
    assert "exists" in capsys.readouterr().err
