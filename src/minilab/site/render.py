"""Write lab.html: one file that works offline and links to the results beside it."""

import posixpath
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup, escape

from minilab.files import write_text
from minilab.pages.templates import environment
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style, embedded_json, script_text
from minilab.site.account import Job, Rule, jobs_of, read_summary
from minilab.site.contents import packed_json
from minilab.site.views import Lab, file_table

PACKAGE = "minilab.site"
CODE = re.compile(r"`([^`]+)`")


def with_code(sentence: str) -> Markup:
    """Write a sentence as HTML, with what stands in `backquotes` as code."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(sentence))))


def render_lab_page(path: str | Path, rules: Sequence[Rule], summary: str, graph: str, language: str) -> None:
    """Write the lab's front door, for the results under the working directory.

    Args:
        path: of the HTML file, relative to the working directory, like all other paths here.
        rules: all rules of the workflow, in its order.
        summary: what `snakemake --detailed-summary` prints.
        graph: the rule graph as SVG, its nodes linked to `lab.html#rule-NAME`.
        language: of the page's own words, `en` or `es`.

    Raises:
        LabError: a language that the lab does not speak, or a result that is not readable.
    """
    path = Path(path).as_posix()
    text = Translations("minilab", "lab", language)
    jobs = [job for job in jobs_of(read_summary(summary), list(rules)) if not _makes(job, path)]
    lab = Lab(rules, jobs, text, path)
    template = environment("minilab.site", language, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters["code"] = with_code
    html = template.get_template("lab.html").render(
        text=text,
        language=language,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        stages=lab.stages(),
        begin=lab.begin(),
        tally=lab.tally(),
        reports=packed_json(lab.reports),
        graph=Markup(graph[graph.index("<svg") :].replace('"lab.html#', '"#')),
        graph_file="dag.svg",
        base=base_style(),
        style=Markup(asset(PACKAGE, "lab.css")),
        program=script_text(("minilab.pages", "theme.js"), (PACKAGE, "lab.js")),
        data=embedded_json(file_table(lab) | {"text": text.under("program")}),
    )
    write_text(path, html)


def _makes(job: Job, page: str) -> bool:
    """Tell whether a job is the one that writes the page; its own state is left out."""
    return any(posixpath.normpath(output.path) == page for output in job.outputs)
