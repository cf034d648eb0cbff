"""`snakemake exercise` needs nothing but the learner's file and the record, and leaves its report and picture."""

from minilab.device import gpu_devices


def test_the_exercise_needs_no_training(lab):
    rules = {job.split()[0] for job in lab.jobs("exercise", "--configfile", "tests/small.yaml")}
    assert rules == {"exercise"} if gpu_devices() else {"exercise", "restore"}


def test_it_is_not_part_of_all(lab):
    assert not any("exercise" in job for job in lab.jobs("--configfile", "tests/small.yaml"))


def test_the_empty_exercise_is_marked_and_drawn(asked):
    said = (asked.root / "exercise.txt").read_text()
    assert "`exercises/softmax_mine.py` is not filled in yet" in said
    folder = asked.root / "results/exercise"
    report = (folder / "REPORT.md").read_text()
    assert "](roofline.png)" in report
    assert report.count("| no |") == 4
    assert (folder / "roofline.png").stat().st_size > 10_000
