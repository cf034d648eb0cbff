"""Write a pytest file that tries the compile of a model of yours in 100 and more ways.

`python scripts/gen_compile_tests.py model.py:make test_model_compiles.py`; then `pytest test_model_compiles.py`. `make`
returns (module, inputs), as for `minicompile capture`. Every case is a sentence, and a line to edit or to delete.
"""

import argparse
import json
import sys
from pathlib import Path

from minicompile.safe.compile_cases import Case, cases_of, model_and_batch
from minilab import LabError
from minilab.files import write_text

HEAD = '''"""The compile of {model}, tried in {count} ways. Written by scripts/gen_compile_tests.py.

Run `pytest {file}`; `pytest {file} -k lies` runs some. A case that does not apply to the model may go.
"""

import pytest

from minicompile.safe.compile_cases import Case, check, model_and_batch

MODEL = {model!r}  # FILE.py:FACTORY, from the folder that pytest is started in

CASES = [
'''
TAIL = """]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_compile(case):
    check(lambda: model_and_batch(MODEL), case)
"""


def line(case: Case) -> str:
    """Write a case as Python, with the arguments that are not its class's defaults."""
    usual = Case()
    given = [
        f"{key}={json.dumps(value) if isinstance(value, str) else repr(value)}"
        for key, value in vars(case).items()
        if value != getattr(usual, key)
    ]
    return f"    Case({', '.join(given)}),  # {case}"


def written(model: str, file: str) -> str:
    """Return the text of the test file.

    Raises:
        LabError: there is no such model, or it cannot be made.
    """
    found = cases_of(*model_and_batch(model))
    return HEAD.format(model=model, count=len(found), file=file) + "\n".join(map(line, found)) + "\n" + TAIL


def main(arguments: list[str] | None = None) -> int:
    """Write the file; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="FILE.py:FACTORY, a model of the lab's or of config.yaml")
    parser.add_argument("out", type=Path, help="the test file to write")
    given = parser.parse_args(arguments)
    try:
        if given.out.exists():
            raise LabError(f"{given.out} exists; delete it, or name another file.")
        text = written(given.model, given.out.name)
        write_text(given.out, text)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: {text.count(chr(10) + '    Case(')} cases; run them with `pytest {given.out}`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
