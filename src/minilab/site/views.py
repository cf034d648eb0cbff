"""What each part of the front door shows: stages, rules, jobs and files, from Snakemake's summary and the results."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from minilab.pages.translations import Translations
from minilab.records.words import worded
from minilab.site.account import Job, Rule, match, wildcards_of
from minilab.site.begin import EXERCISES, FIRST, THEN, concepts, found
from minilab.site.contents import read_caption, report_html, thumbnail
from minilab.site.states import (
    BUILT,
    MISSING,
    NEEDS_GPU,
    NOT_ASKED,
    RESTORED,
    STALE,
    WORST_FIRST,
    State,
    state_of,
)

MADE = "results/"  # files below it are made by the lab, all others are written by hand
READABLE = (".html", ".md")
REASONS = 3  # of a stale result that are told; its own file has them all
HEADING = re.compile(r"^# (.+)$", re.M)


def duration(seconds: float | None, text: Translations) -> str:
    """Write seconds for a reader: `4.2 s`, `2 min 3 s`."""
    if seconds is None:
        return text("rule.unmeasured")
    if seconds < 10:
        return f"{text.number(seconds, '.1f')} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{text.number(minutes)} min {text.number(rest)} s" if minutes else f"{text.number(rest)} s"


def memory(megabytes: float | None, text: Translations) -> str:
    """Write sampled megabytes for a reader, rounded down: `at least 178 MB`, `at least 1.2 GB`."""
    if megabytes is None:
        return text("rule.unmeasured")
    if megabytes >= 1000:
        said = f"{text.number(megabytes / 1000, '.1f', down=1)} GB"
    else:
        said = f"{text.number(megabytes, '.0f', down=0)} MB"
    return text("rule.at_least", memory=said)


def reasons_of(state: State, text: Translations) -> list[str]:
    """Word why a result is stale or out of date."""
    said = [reason if isinstance(reason, str) else worded(reason, text.language) for reason in state.reasons]
    return said if len(said) <= REASONS + 1 else [*said[:REASONS], text("more_reasons", count=len(said) - REASONS)]


def said_of(state: State, text: Translations) -> str:
    """Say where a result comes from, in a sentence."""
    if state.kind in (RESTORED, STALE):
        return text(f"says.{state.kind}", date=state.date, device=state.device)
    return text(f"says.{state.kind}", **({} if state.kind == MISSING else {"date": state.date}))


class Lab:
    """Everything that the page shows, for one state of the workflow and its results.

    Attributes:
        jobs: with their states, what is made first coming first.
        reports: path -> HTML of every Markdown report that is there.
    """

    def __init__(self, rules: Sequence[Rule], jobs: Sequence[Job], text: Translations, page: str) -> None:
        self.rules, self.jobs, self.text, self.page = rules, jobs, text, page
        self.folder = Path(page).parent.as_posix()
        self.stage_words = Translations("minilab", "stages", text.language)
        self.states = [state_of(job) for job in jobs]
        restoring = {job.rule.name for job, state in zip(jobs, self.states, strict=True) if state.device}
        self.measured_by = {
            index: self._measuring(job, restoring) for index, job in enumerate(jobs) if job.rule.name in restoring
        }
        figure_words = Translations("minilab", "figures", text.language)
        self.titles = {
            output.path: (
                figure_words(Path(caption).stem) if caption else self._page_title(Path(output.path).stem),
                job.wildcards.values(),
            )
            for job in jobs
            for output in job.outputs
            if (caption := self._caption(job, output.path)) or output.path.endswith(READABLE)
        }
        made = [output.path for job in jobs for output in job.outputs if Path(output.path).exists()]
        self.concepts = concepts()
        written = [path for path in (*self.concepts, EXERCISES) if Path(path).exists()]
        self.reports = {path: report_html(path, page) for path in (*made, *written) if path.endswith(".md")}

    def _page_title(self, name: str) -> str:
        key = f"pages.{name}"
        return self.text(key) if key in self.text else name

    def _measuring(self, job: Job, restoring: set[str]) -> str | None:
        """Name the rule that would measure these files on hardware that is here: the one with the fewest wildcards."""
        paths = [output.path for output in job.outputs]
        able = [
            (len(wildcards_of(rule, paths[0]) or {}), rule.name)
            for rule in self.rules
            if rule.name not in restoring and all(wildcards_of(rule, path) is not None for path in paths)
        ]
        return min(able)[1] if able else None

    def address(self, path: str) -> str:
        """Write a file's address as seen from the page."""
        inside = f"{self.folder}/"
        return path.removeprefix(inside) if path.startswith(inside) else "../" * (inside.count("/")) + path

    def link(self, path: str) -> str:
        """Choose where a file's name leads: to the file, or to the page's own entry of it when the file is missing."""
        return self.address(path) if Path(path).exists() else f"#file={quote(path, safe='')}"

    def tally(self) -> list[tuple[str, int]]:
        """Count the files in each state, the most urgent state first."""
        counts = dict.fromkeys(WORST_FIRST, 0)
        for job, state in zip(self.jobs, self.states, strict=True):
            counts[state.kind] += len(job.outputs)
        return [(kind, count) for kind, count in counts.items() if count]

    def title_of(self, path: str) -> str:
        """Title a file for a reader: a report by its heading, one of several of a kind with its wildcards."""
        title, wildcards = self.titles.get(path, (self.address(path), ()))
        if path.endswith(".md") and not wildcards and Path(path).exists():
            heading = HEADING.search(Path(path).read_text(encoding="utf-8"))
            title = heading[1] if heading else title
        elif path not in self.titles:
            return title
        return " · ".join([title[0].upper() + title[1:], *wildcards])

    def reading(self, path: str) -> dict:
        """Collect what the page writes of a file: its path, address, title and link."""
        return {"path": path, "address": self.address(path), "title": self.title_of(path), "link": self.link(path)}

    def begin(self) -> dict[str, list[dict]]:
        """Choose what a reader clicks `first`, and `then`, each with its title and sentence, and the `concepts`."""

        def chosen(readings: dict[str, tuple[str, ...]]) -> list[dict]:
            paths = {name: found(patterns, self.jobs, self.states) for name, patterns in readings.items()}
            return [
                self.reading(path) | {"name": name, "says": self.text(f"first.{name}")}
                for name, path in paths.items()
                if path
            ]

        return {
            "first": [one | {"title": self.text(f"begin.{one['name']}")} for one in chosen(FIRST)],
            "then": chosen(THEN),
            "concepts": [self.reading(path) for path in self.concepts],
        }

    def stages(self) -> list[dict]:
        """Describe each stage, one for each file in rules/, in the workflow's order."""
        names = dict.fromkeys(rule.stage for rule in self.rules)
        return [self._stage(name) for name in names]

    def _stage(self, name: str) -> dict:
        rules = [self._rule(rule) for rule in self.rules if rule.stage == name]
        own = sorted(
            (
                (job, output.path)
                for job in self.jobs
                if job.rule.stage == name
                for output in job.outputs
                if Path(output.path).exists()
            ),
            key=lambda made: made[1],
        )
        readings = [self.reading(path) for _, path in own if path.endswith(READABLE)]
        pictures = [self._picture(job, path) for job, path in own if path.endswith(".png")]
        return {
            "name": name,
            "title": self.stage_words(f"{name}.title"),
            "learn": self.stage_words(f"{name}.learn"),
            "rules": rules,
            "states": self._states(name),
            "readings": readings,
            "pictures": pictures,
            "shows": bool(readings or pictures),  # something to look at; the others work behind these
        }

    def _states(self, stage: str) -> list[tuple[str, int]]:
        """Count a stage's files in each state, most files first; restored ones count where they are measured."""
        counts: dict[str, int] = {}
        for index, (job, state) in enumerate(zip(self.jobs, self.states, strict=True)):
            measuring = self.measured_by.get(index)
            if stage == next((rule.stage for rule in self.rules if rule.name == measuring), job.rule.stage):
                counts[state.kind] = counts.get(state.kind, 0) + len(job.outputs)
        return sorted(counts.items(), key=lambda count: -count[1])

    def _picture(self, job: Job, path: str) -> dict:
        source, width, height = thumbnail(path)
        file = self._caption(job, path)
        caption = read_caption(file) if file else job.rule.docstring
        return {**self.reading(path), "source": source, "width": width, "height": height, "caption": caption}

    @staticmethod
    def _caption(job: Job, path: str) -> str | None:
        """Find the file of an output's caption; None where Snakemake's report does not show the output."""
        return next((file for pattern, file in job.rule.captions.items() if match(pattern, path) is not None), None)

    def _rule(self, rule: Rule) -> dict:
        own = [index for index, job in enumerate(self.jobs) if job.rule is rule]
        shown = [*own, *(index for index, name in self.measured_by.items() if name == rule.name)]
        inputs = list(dict.fromkeys(path for index in own for path in self.jobs[index].inputs))
        states = [self.states[index] for index in shown]
        is_this = any(match(pattern, self.page) is not None for pattern in rule.outputs)
        kinds = {state.kind for state in states} or {BUILT if is_this else NEEDS_GPU if rule.needs_gpu else NOT_ASKED}
        spent = [self.states[index] for index in own]
        seconds = [state.seconds for state in spent if state.seconds is not None]
        peaks = [state.megabytes for state in spent if state.megabytes is not None]
        return {
            "name": rule.name,
            "says": rule.docstring,
            "script": rule.script and self.reading(rule.script),
            "states": sorted(kinds, key=WORST_FIRST.index),
            "without_jobs": self.text(f"says.{'this_page' if is_this else NEEDS_GPU if rule.needs_gpu else NOT_ASKED}"),
            "facts": ", ".join(
                [
                    *([self.text("rule.jobs", count=len(shown))] if len(shown) > 1 else []),
                    *([duration(sum(seconds), self.text)] if seconds else []),
                    *([memory(max(peaks), self.text)] if peaks else []),
                ]
            ),
            "inputs": [self.reading(path) for path in inputs if path.startswith(MADE)],
            "sources": sum(not path.startswith(MADE) for path in inputs),
            "patterns": rule.outputs,
            "jobs": [self._job(index) for index in shown],
        }

    def _job(self, index: int) -> dict:
        job, state = self.jobs[index], self.states[index]
        return {
            "label": " · ".join(job.wildcards.values()) or job.rule.name,
            "state": state.kind,
            "says": said_of(state, self.text),
            "reasons": reasons_of(state, self.text),
            "time": duration(state.seconds, self.text),
            "memory": memory(state.megabytes, self.text),
            "outputs": [self.reading(output.path) for output in job.outputs],
        }


def file_table(lab: Lab) -> dict:
    """Number every file and describe every job, for the page's JavaScript.

    Returns:
        `files`: their paths; `missing`: the numbers of those that are not there; `jobs`: rule, numbers of the files it
        is made of and makes, state, what is said of it, time, memory, and the number of a list in `written`: what it is
        made of that people wrote, which jobs of a rule have in common; `badges`: the name of each state; `home`: what
        precedes the path of what the lab makes; `folder` and `up`: what an address as seen from the page leaves out of
        a path in its folder, and what precedes any other.
    """
    of_jobs = (path for job in lab.jobs for path in (*(output.path for output in job.outputs), *job.inputs))
    paths = list(dict.fromkeys([*of_jobs, *lab.reports]))
    number = {path: index for index, path in enumerate(paths)}
    written: dict[tuple[int, ...], int] = {}
    jobs = [
        {
            "rule": job.rule.name,
            "makes": [number[output.path] for output in job.outputs],
            "of": [number[path] for path in job.inputs if path.startswith(MADE)],
            "written": written.setdefault(
                tuple(number[path] for path in job.inputs if not path.startswith(MADE)), len(written)
            ),
            "state": state.kind,
            "says": said_of(state, lab.text),
            "reasons": reasons_of(state, lab.text),
            "time": None if state.seconds is None else duration(state.seconds, lab.text),
            "memory": None if state.megabytes is None else memory(state.megabytes, lab.text),
        }
        for job, state in zip(lab.jobs, lab.states, strict=True)
    ]
    return {
        "home": MADE,
        "folder": f"{lab.folder}/",
        "up": "../" * (lab.folder.count("/") + 1),
        "files": paths,
        "missing": [index for index, path in enumerate(paths) if not Path(path).exists()],
        "jobs": jobs,
        "written": list(written),
        "badges": {state.kind: lab.text(f"state.{state.kind}") for state in lab.states},
    }
