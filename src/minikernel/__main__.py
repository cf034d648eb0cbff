"""Mark an exercise without the workflow: `python -m minikernel textbook`.

The exercises' files come with the package: those that are not in the folder `exercises` yet are put there. How an
exercise is timed says the lab's config.yaml, which comes along too.
"""

import argparse
import shutil
import sys
from pathlib import Path

from minikernel.exercise.answers import answers_in
from minikernel.exercise.exercises import FOLDER, exercises
from minikernel.exercise.marks import nothing_yet
from minikernel.exercise.workshop import marked
from minikernel.report.exercise_report import report
from minilab import LabError
from minilab.config.check import brought
from minilab.device import cpu_device
from minilab.pages.translations import LANGUAGES
from minilab.records import params
from minilab.yaml_files import own_yaml


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m minikernel", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("exercise", nargs="?", choices=exercises(), help="the one to mark; without, all are laid out")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="language of what is said")
    given = parser.parse_args(arguments)
    try:
        lay_out(Path(FOLDER))
        print(_said(given.exercise, given.language) if given.exercise else f"{FOLDER}/README.md says how to begin.")
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def lay_out(folder: Path) -> None:
    """Put the exercises' files that are not in a folder yet there.

    Raises:
        LabError: nothing can be written there.
    """
    try:
        folder.mkdir(exist_ok=True)
        for blank in brought("exercises").iterdir():
            if blank.is_file() and not (folder / blank.name).exists():
                shutil.copy(blank, folder)
    except OSError as error:
        raise LabError(f"the exercises cannot be put into {folder}: {error.strerror}; go to another folder.") from error


def _said(name: str, language: str) -> str:
    exercise, device = exercises()[name], cpu_device()
    config = own_yaml(brought("config.yaml").read_bytes())
    answers = answers_in(exercise.source)
    if answers.unfilled:
        marks = nothing_yet(exercise, exercise.source, answers)
    else:
        limits = {stage: config[stage]["time_limit_seconds"] for stage in ("proof", "bench")}
        timing = params.bench(config, {"device": device, "kernel": ""})
        marks = marked(exercise, exercise.source, device, limits, timing)
    return report(marks, device, language=language)


if __name__ == "__main__":
    sys.exit(main())
