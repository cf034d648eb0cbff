"""A user's Python file is loaded, or refused in one sentence, in either language."""

import os
import subprocess
import sys

import pytest
from declared_faults import check_says, fault, told

from minilab.pages.translations import Translations
from minilab.user_code import LONGEST, UserCodeError, first_line, load_function, module_of


def test_a_function_of_a_user_s_file_is_loaded_and_its_module_stays_importable(tmp_path):
    text = "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 3\ndef f(): return A().x\n"
    (tmp_path / "mine.py").write_text(text)
    assert load_function("model", "a", tmp_path / "mine.py", "f")() == 3
    assert module_of("model", "a") == "user_model_a"


def test_a_file_of_models_is_imported_once_as_long_as_it_stays_the_same(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def f(): return f.__globals__\ndef g(): return f()\n")
    first = load_function("model", "one", file, "f")()
    assert load_function("model", "two", tmp_path / "." / "mine.py", "g")() is first
    assert sys.modules[module_of("model", "two")] is sys.modules[module_of("model", "one")]
    file.write_text("def f(): return 2\n")
    assert load_function("model", "one", file, "f")() == 2


def test_each_kernel_has_an_import_of_its_own(tmp_path):
    (tmp_path / "mine.py").write_text("calls = []\ndef f(): calls.append(1); return len(calls)\n")
    assert [load_function("kernel", "mine", tmp_path / "mine.py", "f")() for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "no_file"),
        ("def other(x):\n    return x\n", "no_function"),
        ("raise SystemExit(4)\n", "not_importable"),
        ("raise ValueError('first\\nsecond')\n", "not_importable"),
    ],
)
def test_a_file_that_cannot_be_used_has_a_code_and_a_sentence_in_each_language(tmp_path, text, code):
    source = tmp_path / "mine.py"
    if text is not None:
        source.write_text(text)
    with pytest.raises(UserCodeError) as refusal:
        load_function("kernel", "mine", source, "softmax")
    reason = refusal.value.reason
    assert reason["code"] == code
    assert str(refusal.value).startswith(f"kernel mine: {source} ")
    assert "\n" not in str(refusal.value)
    fields = {key: value for key, value in reason.items() if key != "code"}
    assert Translations("minilab", "user_code", "es")(code, **fields) != str(refusal.value)


def test_a_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("softmax")
    with pytest.raises(UserCodeError, match="is not a Python file"):
        load_function("kernel", "mine", tmp_path / "mine.txt", "softmax")


def test_keys_that_are_pressed_while_it_loads_are_not_caught(tmp_path):
    (tmp_path / "mine.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_function("kernel", "mine", tmp_path / "mine.py", "softmax")


def test_what_was_raised_is_told_in_one_line():
    assert first_line(ValueError("a sentence.\nmore")) == "ValueError: a sentence"
    compilation = type("CompilationError", (Exception,), {})("at 3:4\n  x\nno such name")
    assert first_line(compilation) == "CompilationError: at 3:4 no such name"
    interpreted = type("InterpreterError", (Exception,), {})("wrapped")
    interpreted.__cause__ = KeyError("x")
    assert first_line(interpreted) == "KeyError: 'x'"


def test_what_dynamo_got_is_told_and_not_what_it_was_doing():
    text = "RuntimeError when making a call\n  Explanation: f(x): got RuntimeError('no fake impl for <f>. Add one.')"
    assert (
        first_line(type("TorchRuntimeError", (RuntimeError,), {})(text))
        == "RuntimeError: no fake impl for <f>. Add one"
    )


def test_what_was_raised_is_cut_and_need_not_have_words():
    assert len(first_line(ValueError("word " * 10**6))) == LONGEST
    assert first_line(type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})()) == "Mute"


@pytest.mark.parametrize("does", ["raise ValueError('boom\\nand more')", "raise SystemExit(3)"])
def test_a_factory_that_raises_is_a_sentence_with_the_model_s_name(tmp_path, does):
    (tmp_path / "mine.py").write_text(f"def make():\n    {does}\n")
    make = load_function("model", "mine", tmp_path / "mine.py", "make")
    with pytest.raises(
        UserCodeError, match=r"^model mine: .*mine.py: make\(\) failed with \w+: \w+; mend it"
    ) as refusal:
        make()
    assert refusal.value.__cause__ is not None


HELPED = {
    "plain": ("from helpers import value\ndef f(): return value()\n", "def value(): return {}\n"),
    "relative": ("from .helpers import value\ndef f(): return value()\n", "def value(): return {}\n"),
    "late": ("def f():\n    from .helpers import value\n    return value()\n", "def value(): return {}\n"),
    "package": (
        "import importlib\nvalue = importlib.import_module('helpers.deep').value\ndef f(): return value()\n",
        "from . import other\ndef value(): return {} + other\n",
    ),
}


@fault("files of yours in several folders import each a `helpers` beside it", None, "Each finds its own.")
@pytest.mark.parametrize("kind", ["kernel", "model"])
@pytest.mark.parametrize("way", HELPED)
def test_each_user_s_file_finds_its_own_helpers(tmp_path, way, kind):
    text, helper = HELPED[way]
    found = []
    for number in (1, 2, 1):
        folder = tmp_path / f"of_{number}"
        place = folder / "helpers/deep.py" if way == "package" else folder / "helpers.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        if way == "package":
            (place.parent / "__init__.py").write_text("other = 0\n")
        place.write_text(helper.format(number))
        (folder / "mine.py").write_text(text)
        found.append(load_function(kind, f"mine_{number}", folder / "mine.py", "f")())
    assert found == [1, 2, 1]


def test_a_helper_counts_as_it_stands_whatever_python_has_kept_of_it(tmp_path):
    (tmp_path / "mine.py").write_text("import helpers\ndef f(): return helpers.value\n")
    # Python's cache would take both for the same: one size, one second
    program = (
        "import os, sys\nfrom minilab.user_code import load_function\n"
        "print(load_function('kernel', 'mine', sys.argv[1] + '/mine.py', 'f')())\n"
    )
    said = []
    for value in (1, 2):
        (tmp_path / "helpers.py").write_text(f"value = {value}\n")
        os.utime(tmp_path / "helpers.py", (1_600_000_000, 1_600_000_000))
        subprocess.run([sys.executable, "-c", "import helpers"], cwd=tmp_path, check=True)
        (said.append(subprocess.check_output([sys.executable, "-c", program, tmp_path], text=True).strip()))
    assert said == ["1", "2"]


NEEDS = "model mine: ...mine.py needs the module {}, which is neither installed nor in ..., its folder; install it, "
NOT_BUILT = "Nothing is written of it; a kernel is left out with the same words."


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        told(
            "a file of yours imports what is nowhere",
            NOT_BUILT,
            "import no_such_module_here\n",
            "no_module",
            f"{NEEDS.format('no_such_module_here')}put it there, or mend its name.",
        ),
        ("from .nowhere import f\n", "no_module", f"{NEEDS.format('.nowhere')}..."),
        ("import helpers\n", "no_module", f"{NEEDS.format('deeper.still')}..."),
        told(
            "a file of yours asks with dots for what lies above its folder",
            NOT_BUILT,
            "from ..above import f\n",
            "above_folder",
            "model mine: ...mine.py, or what it imports, asks with dots for what lies above ..., its folder, where its "
            "dots end; put what it imports there or below, and import it from there.",
        ),
        ("from helper import nothing\n", "not_importable", "...cannot import name..."),
    ],
)
def test_what_is_not_found_is_told_with_the_place_where_it_was_looked_for(tmp_path, text, code, said):
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "helpers.py").write_text("import deeper.still\n")
    (tmp_path / "deeper").mkdir()
    with pytest.raises(UserCodeError) as refusal:
        load_function("model", "mine", tmp_path / "mine.py", "softmax")
    assert refusal.value.reason["code"] == code
    check_says(str(refusal.value), said)
    assert ("mend the file" in str(refusal.value)) == (code == "not_importable")
