"""Write the generated pages of docs/ again: `python -m docs.build`, or one part of them, `python -m docs.build config`.

Run it after `snakemake record`, after a change of the configuration's schema, and with every torch release that is
supported: what compile failures say under each release is kept side by side. `python -m docs.build price` writes
nothing: it prints what each room of the house costs.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from docs.build import (
    concept_pages,
    config_page,
    cpu_ladder,
    explorer_picture,
    playbook,
    price,
    readme,
    what_if_pages,
    who_is_right,
)
from docs.build.over_time import page as over_time_page
from docs.build.over_time import switches as switches_page
from docs.build.site_explorers import recorded_capture
from minicompile import capture
from minicompile.models import tiny_head
from minilab import LabError
from minilab.files import read_json, write_text
from minilab.site import glossary


def write_concepts(options: argparse.Namespace) -> None:
    """Write the concept pages and their figures from the record and from a capture of `tiny_head`."""
    if options.capture:
        captured = read_json(options.capture)
    else:
        head = tiny_head()
        captured = capture(head.module, head.inputs, target="simulated", name=head.name, assembly=True)
    config = concept_pages.read_config(options.config)
    concept_pages.write_pages(concept_pages.facts(options.record, config, captured), options.docs)


def write_first_look(options: argparse.Namespace) -> None:
    """Write what a first look at the records shows, but for what only its own page can show."""
    write_text(options.docs / "first_look.md", concept_pages.first_look(concept_pages.read_config(options.config)))


def write_cpu_ladder(options: argparse.Namespace) -> None:
    """Write the page on the CPU's ladder and its picture, from the run under results/, or from the last one kept."""
    headline = concept_pages.read_config(options.config)["roofline"]["headline"]["cpu"]
    cpu_ladder.remember(options.results, headline)
    concept_pages.write_ladder({"ladder": cpu_ladder.ladder_facts()}, options.docs)


def write_playbook(options: argparse.Namespace) -> None:
    """Write the generated parts of the torch.compile playbook, and keep what failures say under the installed torch."""
    playbook.remember_failures()
    for page in [options.docs / "torch_compile.md", *sorted((options.docs / "torch_compile").glob("*.md"))]:
        write_text(page, playbook.refresh(page.read_text()))


def write_readme(options: argparse.Namespace) -> None:
    """Write the figures in the README, which lies beside the folder of the pages."""
    write_text(options.docs.parent / readme.README, readme.written(readme.README.read_text()))


def write_config(options: argparse.Namespace) -> None:
    """Write the table of all keys of the configuration."""
    write_text(options.docs / "config.md", config_page.document(options.schema, options.config))


def write_faults(options: argparse.Namespace) -> None:
    """Write the table of what can go wrong, from the tests that cause it.

    Raises:
        LabError: the tests cannot be imported; they need what `pip install -e '.[test]'` brings.
    """
    command = [sys.executable, "tests/faults/faults.py", "--print"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"`{' '.join(command[1:])}` failed: {done.stderr.strip().splitlines()[-1]}")
    write_text(options.docs / "faults.md", done.stdout)


def write_what_if(options: argparse.Namespace) -> None:
    """Write the pages of the knobs, and keep what they quote of the what-ifs that have been run here."""
    what_if_pages.remember(options.results)
    what_if_pages.write_pages(read_json(what_if_pages.DATA), options.docs)


def write_over_time(options: argparse.Namespace) -> None:
    """Write the page on Inductor over time, and keep what it quotes of the comparisons that have been run here."""
    over_time_page.remember(options.results)
    over_time_page.write_page(read_json(over_time_page.DATA), options.docs)


def write_loss(options: argparse.Namespace) -> None:
    """Write the page on whose linear and cross-entropy is right, and keep what it quotes of a CPU here."""
    who_is_right.remember(options.results)
    write_text(options.docs / "who_is_right.md", who_is_right.page(who_is_right.verdicts()))


def write_switches(options: argparse.Namespace) -> None:
    """Write the page on Inductor's switches, and keep what it quotes of those that have been tried here."""
    switches_page.remember(options.results)
    switches_page.write_page(read_json(switches_page.DATA), options.docs)


def write_glossary(options: argparse.Namespace) -> None:
    """Write the glossary in each language."""
    for language, file in glossary.FILE.items():
        write_text(options.docs / Path(file).name, glossary.glossary_page(language))


def write_explorer(options: argparse.Namespace) -> None:
    """Take the picture of the record's explorer that the README shows; needs Chromium."""
    capture = recorded_capture(options.record.parent / "25/minigpt")
    explorer_picture.take(capture, options.docs / "images/explorer.png")


def print_price(options: argparse.Namespace) -> None:
    """Print lines, comments, tests and their seconds by room, and what the last commit changed."""
    durations = options.durations or (price.DURATIONS if price.DURATIONS.exists() else None)
    print(price.report(Path(), durations))


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "readme": write_readme,
    "config": write_config,
    "faults": write_faults,
    "glossary": write_glossary,
    "first_look": write_first_look,
    "cpu_ladder": write_cpu_ladder,
    "concepts": write_concepts,
    "playbook": write_playbook,
    "what_if": write_what_if,
    "over_time": write_over_time,
    "switches": write_switches,
    "loss": write_loss,
    "explorer": write_explorer,
}


PRINTED: dict[str, Callable[[argparse.Namespace], None]] = {"price": print_price}


def main(arguments: list[str] | None = None) -> int:
    """Write the parts that are named, or all; return 1 after a refusal, whose sentence is printed."""
    parser = argparse.ArgumentParser(prog="python -m docs.build", description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"out of {', '.join(PARTS)}; all of them by default; or price"
    )
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder that is written (default: docs)")
    parser.add_argument(
        "--record", type=Path, default=Path("results/recorded/h200/24"), help="the record that the concept pages quote"
    )
    parser.add_argument("--capture", type=Path, help="a capture of tiny_head as JSON, instead of making one")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where what-ifs have been run")
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--schema", type=Path, default=Path("schemas/config.schema.yaml"))
    parser.add_argument(
        "--durations", type=Path, help=f"of tests, as `pytest --junitxml` writes them (default: {price.DURATIONS})"
    )
    options = parser.parse_args(arguments)
    known = PARTS | PRINTED
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; write one of {', '.join(known)}")
    try:
        for part in options.parts or PARTS:
            known[part](options)
            if part in PARTS:
                print(f"{part}: written under {options.docs}")
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
