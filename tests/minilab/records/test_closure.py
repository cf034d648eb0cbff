"""The modules that a script uses, read from its imports."""

from pathlib import Path

import pytest

from minilab.records.closure import modules_used_by


@pytest.fixture
def src(tmp_path: Path) -> Path:
    files = {
        "pack/__init__.py": "",
        "pack/direct.py": "from pack import indirect\nimport json\n",
        "pack/indirect.py": "def f():\n    from other.deep.leaf import thing\n",
        "pack/unused.py": "",
        "other/__init__.py": "",
        "other/deep/__init__.py": "",
        "other/deep/leaf.py": "from minilab import files\nthing = 1\n",
        "minilab/__init__.py": "",
        "minilab/files.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_closure_follows_imports_inside_functions_and_leaves_plumbing_out(src: Path):
    script = src / "script.py"
    script.write_text("import pack.direct\nfrom minilab.script import run\n")
    found = {str(Path(file).relative_to(src)) for file in modules_used_by(script, src)}
    assert found == {
        "pack/__init__.py", "pack/direct.py", "pack/indirect.py",
        "other/__init__.py", "other/deep/__init__.py", "other/deep/leaf.py",
    }  # fmt: skip


def test_training_does_not_depend_on_torch_modules():
    used = modules_used_by("scripts/train.py")
    assert "src/minimodel/numpy_minigpt.py" in used
    assert not [file for file in used if "torch" in file or "minikernel" in file]
