"""`snakemake exercise` needs nothing but the learner's files and the record, and leaves a report for each."""

import pytest
from lab import Lab

from minikernel.exercise.exercises import exercises
from minilab.device import gpu_devices
from minilab.files import read_json

SMALL = ("--configfile", "tests/small.yaml")


def work_on(*students: str) -> set[str]:
    """The jobs that mark these students of a class, time it, and gather the marks."""
    jobs = {f"grade_student results/grade/marked/{one}.json" for one in students}
    return jobs | {"time_class results/grade/times.json (update)", "grade results/grade/grades.json"}


def written(text: str) -> str:
    """Ones own softmax, no longer empty."""
    return text.replace("raise NotImplementedError(", "return x.softmax(-1, dtype=None if x.dim() else str(")


def test_the_exercises_need_no_training(lab: Lab):
    assert {job.split()[0] for job in lab.jobs("exercise", *SMALL)} == {"exercise", "mark_exercise"}
    lab.edit("exercises/softmax_mine.py", written)
    rules = {job.split()[0] for job in lab.jobs("exercise", *SMALL)}
    assert rules == {"exercise", "mark_exercise", "exercise_roofline"} | (set() if gpu_devices() else {"restore"})


def test_one_is_marked_by_its_name(lab: Lab):
    jobs = lab.jobs("exercise", *SMALL, "--config", "exercise=online")
    assert jobs == {"mark_exercise results/exercise/online/marks.json", "exercise results/exercise/REPORT.md"}
    said = lab.snakemake("exercise", *SMALL, "--config", "exercise=softmax", "-n", check=False).stdout
    assert "there is no exercise 'softmax'; write one of textbook, blocks, row" in said


def test_they_are_not_part_of_all(lab: Lab):
    jobs = lab.jobs(*SMALL)
    assert not any("exercise" in job or "grade" in job for job in jobs)


def test_what_is_not_begun_says_where_to_begin(marked: Lab):
    said = (marked.root / "exercise.txt").read_text()
    assert "`exercises/01_textbook.py` is not filled in yet" in said
    last = said.split("(100%) done")[-1]  # on the terminal, where a learner looks
    assert "\n\nExercise 1, the formula, safe: not begun (exercises/01_textbook.py)\n" in last
    folder = marked.root / "results/exercise"
    page = (folder / "REPORT.md").read_text()
    assert page.count("not begun") == len(exercises())
    for name in exercises():
        assert "the questions at the top of the file" in (folder / name / "REPORT.md").read_text()
    assert (folder / "mine/roofline.png").stat().st_size > 10_000


def test_an_edited_exercise_is_marked_again_and_no_other(marked: Lab, tmp_path):
    lab = marked.copy(tmp_path / "lab")
    lab.edit("exercises/02_blocks.py")
    assert lab.jobs("exercise", "--configfile", "tests/small.yaml", "tests/every_rule.yaml") == {
        "mark_exercise results/exercise/blocks/marks.json",
        "exercise results/exercise/REPORT.md",
    }


@pytest.mark.parametrize("option", [[], ["--config", "class=nowhere"], ["--config", "class=exercises"]])
def test_a_class_that_is_none_is_one_sentence(lab: Lab, option: list[str]):
    said = lab.snakemake("grade", *SMALL, *option, "-n", check=False).stdout
    assert "run `snakemake grade --config class=DIR` with a folder that holds one folder for each student" in said
    assert not (lab.root / "results/grade").exists()


def test_a_class_is_graded_a_job_a_student(marked: Lab):
    folder = marked.root / "results/grade"
    table = (folder / "grades.csv").read_text().splitlines()
    assert table[0] == f"student,{','.join(name for name in exercises() if name != 'mine')},done"
    verdicts = {line.split(",")[0]: line.split(",")[1] for line in table[1:]}
    assert verdicts == {"ana": "done", "bo": "borrowed", "cy": "unfilled", "link": "link"}
    assert "Marks of class" in (folder / "index.html").read_text()
    assert len(list((folder / "marked").glob("*.json"))) == 4


def test_who_is_right_is_timed_where_that_is_asked(marked: Lab):
    folder = marked.root / "results/grade"
    times = read_json(folder / "times.json")["times"]
    assert {name: set(timed) for name, timed in times.items()} == {"ana": {"blocks"}}
    assert times["ana"]["blocks"]["speed"]["ratio"] > 0
    [ana] = [one for one in read_json(folder / "grades.json")["students"] if one["student"] == "ana"]
    assert ana["exercises"]["blocks"] == {**times["ana"]["blocks"], "alike": []}


def test_only_what_is_handed_in_anew_is_marked_again(marked: Lab, tmp_path):
    lab = marked.copy(tmp_path / "lab")
    option = ("--configfile", "tests/small.yaml", "tests/every_rule.yaml", "--config", "class=class")
    assert lab.jobs("grade", *option) == set()
    (lab.root / "class/bo/notes.txt").write_text("mine")
    assert lab.jobs("grade", *option) == set()
    lab.edit("class/bo/01_textbook.py")
    assert lab.jobs("grade", *option) == work_on("bo")
    (lab.root / "class/zed").mkdir()
    assert lab.jobs("grade", *option) == work_on("bo", "zed")
