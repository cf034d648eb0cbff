"""The notebooks run from top to bottom, and hold one picture each that came of it, and else nothing that came out."""

import base64
import io
import re
from pathlib import Path

import pytest
from PIL import Image

nbformat = pytest.importorskip("nbformat", reason="no notebooks: pip install nbclient ipykernel")
pytest.importorskip("nbclient", reason="no notebooks: pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="no notebooks: pip install nbclient ipykernel")
from notebooks.run import NOTEBOOKS, PICTURE, pictures, run, with_its_picture  # noqa: E402

MOST_BYTES = 250_000  # of a file, which is mostly its picture
MEASURED = re.compile(r"\d\s*(%|times|kernels|launches|µs|ms|[kMGT]B|TFLOP)")


def picture(output) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(output.data[PICTURE])))


def code(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_its_picture_is_what_comes_out(path: Path):
    kept = [output for cell in nbformat.read(path, as_version=4).cells for output in pictures(cell)]
    made = run(path)
    assert [output.name for cell in code(made) for output in cell.outputs if output.output_type == "error"] == []
    (fresh,) = [output for cell in with_its_picture(made).cells for output in pictures(cell)]
    assert picture(fresh).size == pytest.approx(picture(kept[0]).size, rel=0.05)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_is_kept_of_a_run_but_one_picture(path: Path):
    held = nbformat.read(path, as_version=4)
    nbformat.validate(held)
    (output,) = [output for cell in code(held) for output in cell.outputs]
    assert list(output.data) == [PICTURE]
    assert picture(output).convert("RGB").getcolors(10) is None  # it is not blank
    assert {cell.execution_count for cell in code(held)} == {None}
    assert path.stat().st_size < MOST_BYTES


def test_all_begin_with_the_same_cell_that_finds_the_lab():
    first = {code(nbformat.read(path, as_version=4))[0].source for path in NOTEBOOKS}
    assert len(NOTEBOOKS) == 3
    assert len(first) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_figures_are_worked_out_in_cells_and_not_told(path: Path):
    words = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    assert [found[0] for text in words for found in MEASURED.finditer(text)] == []
    assert sum("**Guess:**" in text for text in words) >= 2


def test_a_cell_that_raises_is_no_run(tmp_path, monkeypatch):
    from nbclient.exceptions import CellExecutionError

    monkeypatch.setattr("notebooks.run.HERE", tmp_path)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), tmp_path / "bad.ipynb")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(tmp_path / "bad.ipynb")


def test_the_first_cell_installs_the_lab_where_there_is_none(tmp_path, monkeypatch):
    cell = code(nbformat.read(NOTEBOOKS[0], as_version=4))[0].source
    ran: list[list] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.run", lambda command, check: ran.append([str(part) for part in command]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(cell, {})
    (tmp_path / "src/minikernel").mkdir(parents=True)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    exec(cell, {})
    install = ["-m", "pip", "install", "--quiet"]
    assert [command[1:] for command in ran] == [[*install, "minigpt-lab"], [*install, str(tmp_path)]]
