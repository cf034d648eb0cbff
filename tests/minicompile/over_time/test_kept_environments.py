"""Environments with a version of torch: found, made by the real venv and pip, and every refusal in one sentence."""

import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from minicompile.over_time import environments
from minicompile.over_time.environments import UNFINISHED, Wanted, interpreter, wanted
from minilab import LabError

HERE = version("torch")


@pytest.mark.parametrize(
    ("asked", "fit", "fit_not"),
    [
        ("2.15", ["2.15.0", "2.15.3+cu132", "2.15.0.dev1"], ["2.1.5", "2.1", "2.14.1", "3.15.0"]),
        ("2.15.0", ["2.15.0", "2.15.0+cpu"], ["2.15.1", "2.15.0.dev1"]),
        ("2.15.0+cpu", ["2.15.0+cpu"], ["2.15.0", "2.15.0+cu132"]),
        ("2.16.0rc1", ["2.16.0rc1"], ["2.16.0"]),
    ],
)
def test_a_version_fits_what_pip_would_install_for_it(asked, fit, fit_not):
    assert [one for one in [*fit, *fit_not] if Wanted(asked).fits(one)] == fit


def test_versions_keep_the_order_in_which_they_are_named():
    assert [one.version for one in wanted(" 2.15, 2.11.0,,2.13 ")] == ["2.15", "2.11.0", "2.13"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2.13", "names 1 of torch's versions, and two are compared"),
        ("", "names 0 of torch's versions"),
        ("2.13,2.15,2.13", "names 2.13 twice"),
        ("2.13,newest", "'newest' is no version of torch; write one as 2.15"),
        ("2.13,v", "'v' is no version"),
        ("2,2.13", "2 is no version of torch alone; write its minor version too: 2.0."),
        ("2.13,2.15=/no/such/python", "/no/such/python is no Python with a torch"),
        ("2.13,2.15=", "is no Python with a torch"),
        ("2.13,2.15=/bin/true", "/bin/true is no Python with a torch"),
        (f"2.13,9.9={sys.executable}", f"has torch {HERE} and not 9.9"),
    ],
)
def test_what_names_no_two_versions_is_refused(text, said):
    with pytest.raises(LabError, match=r"^--torch") as refused:
        wanted(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_torch_that_is_here_needs_no_environment(tmp_path):
    assert interpreter(Wanted(HERE), tmp_path / "kept") == Path(sys.executable)
    assert not (tmp_path / "kept").exists()


def kept(folder: Path, name: str, torch: str) -> Path:
    """A folder that is laid out as an environment is."""
    python = folder / name / "bin/python"
    made = folder / name / f"lib/python3.11/site-packages/torch-{torch}.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    return python


def test_of_environments_that_are_kept_the_newest_that_fits_is_used_and_none_that_is_half_made(tmp_path):
    kept(tmp_path, "one", "9.9.1")
    newest = kept(tmp_path, "whatever its name", "9.9.10+cpu")
    kept(tmp_path, "half", "9.9.11")
    (tmp_path / "half" / UNFINISHED).touch()
    kept(tmp_path, "other", "9.10.0")
    assert interpreter(Wanted("9.9"), tmp_path) == newest


@pytest.fixture
def wheels(tmp_path, monkeypatch) -> Path:
    """A folder that pip installs from, with a torch 9.9.0 in it; the lab requires nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "torch-9.9.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("torch/__init__.py", "")
        wheel.writestr("torch-9.9.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.9.0\n")
        wheel.writestr(
            "torch-9.9.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("torch-9.9.0.dist-info/RECORD", "")
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.minigpt-lab]\ndependencies = ["torch>=2.11,<2.14"]\n')
    monkeypatch.setattr(environments, "PROJECT", project)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    return folder


def test_an_environment_is_made_once_and_half_made_it_is_made_anew(wheels, tmp_path, monkeypatch, capfd):
    folder = tmp_path / "kept"
    (folder / "9.9").mkdir(parents=True)
    (folder / "9.9" / UNFINISHED).touch()  # as a run that was killed leaves it
    python = interpreter(Wanted("9.9"), folder)
    assert python == folder / "9.9/bin/python"
    assert environments._torch_of(python) == "9.9.0"
    assert "making an environment" in capfd.readouterr().err
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))  # where there is nothing to install
    assert interpreter(Wanted("9.9.0"), folder) == python
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "setting", "said"),
    [
        ("9.8", {}, "pip does not have it for Python"),
        ("9.9", {"PIP_FIND_LINKS": "/var/empty"}, "pip's index has no torch at all"),
        (
            "9.9",
            {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9/"},
            "reaches no package",
        ),
        ("9.9", {"PIP_CONSTRAINT": "constraint.txt"}, "a constraint of pip's forbids it"),
        ("9.9", {"PIP_REQUIRE_HASHES": "1"}, "pip failed in"),
    ],
)
def test_why_pip_installs_nothing_is_one_sentence_and_nothing_is_left(
    wheels, tmp_path, monkeypatch, asked, setting, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "constraint.txt").write_text("torch<9")
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LabError, match=f"^torch {asked}: ") as refused:
        interpreter(Wanted(asked), tmp_path / "kept")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".") or str(refused.value).endswith(")")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f".{asked}.lock"]


def test_a_folder_that_somebody_else_filled_is_left_alone(wheels, tmp_path):
    (tmp_path / "kept/9.9").mkdir(parents=True)
    (tmp_path / "kept/9.9/thesis.tex").touch()
    with pytest.raises(LabError, match=r"is there and is no environment with torch 9\.9; move it away"):
        interpreter(Wanted("9.9"), tmp_path / "kept")
    assert (tmp_path / "kept/9.9/thesis.tex").exists()


def test_where_nothing_can_be_written_that_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"no environment can be kept in .*; name another: --environments DIR"):
        interpreter(Wanted("9.9"), tmp_path / "file/kept")


def test_what_the_lab_requires_is_what_it_states_without_torch():
    names = [environments.Requirement(text).name for text in environments._beside_torch()]
    assert {"numpy", "triton", "depyf"} <= set(names)
    assert "torch" not in names
