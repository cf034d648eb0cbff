"""Runs the notebooks from top to bottom, each in a kernel of its own, and keeps of what came out one picture each.

    python notebooks/run.py                  all of them
    python notebooks/run.py 1_softmax.ipynb  one

The cell whose picture is kept has the tag `picture`. Everything else that came out is left out of the files, so that a
change of theirs is a change of words or code.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
SECONDS = 300  # of a cell, on a machine that is busy with other things
PICTURE = "image/png"


def run(path: Path) -> NotebookNode:
    """Execute a notebook in its own folder, as Jupyter does.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": HERE}})
    return client.execute()


def pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The pictures that came out of a cell, of any cell but of code none."""
    return [output for output in cell.get("outputs", []) if PICTURE in output.get("data", {})]


def with_its_picture(notebook: NotebookNode) -> NotebookNode:
    """The notebook without all that came out of it, but for the last picture of the cell that is tagged so."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            shown = pictures(cell)[-1:] if "picture" in cell.metadata.get("tags", []) else []
            cell.outputs = [
                nbformat.v4.new_output("display_data", data={PICTURE: output.data[PICTURE]}) for output in shown
            ]
            cell.execution_count = None
    return notebook


if __name__ == "__main__":
    for path in [HERE / name for name in sys.argv[1:]] or NOTEBOOKS:
        nbformat.write(with_its_picture(run(path)), path)
        print(path)
