"""What a script depends on, computed from its text."""

from pathlib import Path

import pytest

from minilab.records.sources.closure import closure

FILES = {
    "pack/__init__.py": "",
    "pack/direct.py": "from pack import indirect\nimport json\n",
    "pack/indirect.py": '"""Reads data/unread.yaml."""\ndef f():\n    from other.deep.leaf import thing\n',
    "pack/unused.py": "",
    "pack/data/read.yaml": "a: 1\n",
    "pack/data/unread.yaml": "a: 1\n",
    "pack/tables/one.json": "{}",
    "pack/tables/two.json": "{}",
    "pack/reads.py": 'FILE = HERE / "data/read.yaml"\nTABLES = "tables/*.json"\nNOTHING = "no/such.yaml"\n',
    "pack/by_name.py": 'call("pack.direct:f")\n',
    "pack/registry.py": (
        'SPECS = {"naive": Spec("pack.cuda", "kernels/naive.cu"), "triton": Spec("pack.unused", "reads.py")}\n'
    ),
    "pack/cuda.py": "",
    "pack/kernels/naive.cu": '#include "common.cuh"\n',
    "pack/kernels/common.cuh": '  # include "deeper.cuh"\n',
    "pack/kernels/deeper.cuh": "",
    "pack/page.py": (
        "from minilab.pages.templates import render\n"
        'Translations("pack", "words")\nrender("report")\nasset("look.css")\n'
    ),
    "pack/wordless.py": 'unit = "words"\n',
    "pack/locale/en/words.yaml": "a: b\n",
    "pack/locale/es/words.yaml": "a: b\n",
    "pack/templates/report.md": '{% include "part.md" %}{%- include twin("twins") %}',
    "pack/templates/twins.md": "",
    "pack/templates/twins.es.md": "",
    "pack/templates/report.es.md": "",
    "pack/templates/part.md": "",
    "pack/templates/other.md": "",
    "pack/page/look.css": "",
    "lazy/__init__.py": 'HOMES = {"one": "lazy.first", "two": "lazy.second"}\ndef __getattr__(name):\n    ...\n',
    "lazy/first.py": "",
    "lazy/second.py": "",
    "other/__init__.py": "",
    "other/deep/__init__.py": "",
    "other/deep/leaf.py": "from minilab import files\nfrom minilab.site import style\nthing = 1\n",
    "minilab/__init__.py": "",
    "minilab/files.py": "",
    "minilab/site/__init__.py": "",
    "minilab/site/style.py": "",
}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def used(src: Path, text: str, names=()) -> set[str]:
    """What a script of this text depends on, without the script and without packages' own files."""
    script = src / "script.py"
    script.write_text(text)
    found = {Path(file).relative_to(src).as_posix() for file in closure(script, names, src)}
    assert "script.py" in found
    return {name for name in found if not name.endswith(("__init__.py", "script.py"))}


def test_imports_inside_functions_are_followed_and_plumbing_is_left_out_but_for_looks(src: Path):
    found = used(src, "import pack.direct\nfrom minilab.files import run\n")
    assert found == {"pack/direct.py", "pack/indirect.py", "other/deep/leaf.py", "minilab/site/style.py"}
    assert "other/deep/__init__.py" in closure(src / "script.py", (), src)[0] or any(
        file.endswith("other/deep/__init__.py") for file in closure(src / "script.py", (), src)
    )


def test_data_files_are_those_that_a_module_names_and_no_docstring_names_any(src: Path):
    assert used(src, "from pack import reads\n") == {
        "pack/reads.py", "pack/data/read.yaml", "pack/tables/one.json", "pack/tables/two.json",
    }  # fmt: skip
    assert "pack/data/unread.yaml" not in used(src, "from pack import indirect\n")


def test_a_module_that_is_named_by_a_string_is_followed(src: Path):
    assert "pack/indirect.py" in used(src, "from pack.by_name import call\n")


def test_a_table_is_followed_entry_by_entry_where_the_entries_are_known(src: Path):
    naive = {"pack/registry.py", "pack/cuda.py", "pack/kernels/naive.cu"}
    headers = {"pack/kernels/common.cuh", "pack/kernels/deeper.cuh"}
    triton = {"pack/unused.py", "pack/reads.py", "pack/data/read.yaml", "pack/tables/one.json", "pack/tables/two.json"}
    assert used(src, "import pack.registry\n", ["naive"]) == naive | headers
    assert used(src, "import pack.registry\n") == naive | headers | triton
    assert used(src, "import pack.registry\n", ["somebody's own"]) == naive | headers | triton


def test_of_a_package_that_resolves_names_by_string_only_what_is_imported_counts(src: Path):
    assert used(src, "from lazy import one\n") == {"lazy/first.py"}
    assert used(src, "import lazy.second\n") == {"lazy/second.py"}


@pytest.mark.parametrize(
    ("body", "asked", "counts"),
    [
        ("", "from lazy import one", False),
        ("", "import lazy.second", False),
        ("", "from lazy import second", False),
        ('__all__ = sorted(HOMES)\nimport importlib\n"""Words."""\n', "from lazy import one", False),
        ("", "from lazy import HOMES", True),
        ("SCALE = 2\n", "from lazy import one", True),
        ("import_all()\n", "import lazy.second", True),
        ("def other():\n    ...\n", "import lazy.second", True),
        ("from lazy.second import two\n", "import lazy.first", True),
    ],
)
def test_a_packages_own_file_counts_where_it_does_more_than_hand_names_on(src: Path, body: str, asked: str, counts):
    (src / "lazy/__init__.py").write_text(FILES["lazy/__init__.py"] + body)
    (src / "script.py").write_text(asked)
    assert (str(src / "lazy/__init__.py") in closure(src / "script.py", (), src)) == counts


def test_words_templates_and_looks_of_a_page_count(src: Path):
    assert used(src, "from pack.wordless import unit\n") == {"pack/wordless.py"}
    assert used(src, "from pack.page import text\n") == {
        "pack/page.py", "pack/locale/en/words.yaml", "pack/locale/es/words.yaml", "pack/templates/report.md",
        "pack/templates/report.es.md", "pack/templates/part.md", "pack/page/look.css", "pack/templates/twins.md",
        "pack/templates/twins.es.md",
    }  # fmt: skip


def test_a_file_that_is_edited_is_read_anew(src: Path):
    assert used(src, "import json\n") == set()
    assert used(src, "import pack.unused\n") == {"pack/unused.py"}


def test_modules_beside_a_users_file_count(src: Path):
    (src / "mine").mkdir()
    (src / "mine/helper.py").write_text("")
    (src / "mine/kernel.py").write_text("import helper\n")
    found = closure(src / "mine/kernel.py", (), src / "no packages")
    assert [Path(file).name for file in found] == ["helper.py", "kernel.py"]


def test_training_does_not_depend_on_torch_modules():
    found = closure("scripts/train.py")
    assert "src/minimodel/numpy_minigpt.py" in found
    assert "src/minimodel/data/lexicon.yaml" in found
    assert not [file for file in found if "torch" in file or "minikernel" in file]
