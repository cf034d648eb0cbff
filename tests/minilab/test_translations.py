"""What people read is there in every language, and nothing of it is missing."""

import re
from pathlib import Path
from string import Formatter

import pytest
import yaml

from minilab import LabError
from minilab.pages.translations import LANGUAGES, Translations, flattened, number

ROOT = Path(__file__).parents[2]
ENGLISH = sorted(ROOT.glob("src/*/locale/en/*.yaml"))
OTHERS = [language for language in LANGUAGES if language != "en"]
RULE_FILES = [path for path in ROOT.glob("rules/*.smk") if re.search(r"^rule ", path.read_text(), re.M)]
RULES = {
    found[1] or found[2]
    for path in RULE_FILES
    for found in re.finditer(r"^(?:rule (\w+)|use rule \w+ as (\w+))", path.read_text(), re.M)
}


def catalogue(path: Path) -> dict[str, set[str]]:
    """Key -> the fields that its sentence names, of both forms of a plural."""
    flat = flattened(yaml.safe_load(path.read_text()))
    sentences = {key: "".join(value.values()) if isinstance(value, dict) else value for key, value in flat.items()}
    return {key: {field for _, field, *_ in Formatter().parse(text) if field} for key, text in sentences.items()}


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("english", ENGLISH, ids=lambda path: f"{path.parts[-4]}/{path.stem}")
def test_every_language_has_every_key_with_its_fields(english: Path, language: str):
    assert catalogue(english.parents[1] / language / english.name) == catalogue(english)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_of_rules_has_its_title_and_what_one_learns(language: str):
    keys = catalogue(ROOT / f"src/minilab/locale/{language}/stages.yaml").keys()
    assert keys == {f"{path.stem}.{part}" for path in RULE_FILES for part in ("title", "learn")}


@pytest.mark.parametrize("language", OTHERS)
def test_every_rule_is_described_in_every_language(language: str):
    assert catalogue(ROOT / f"src/minilab/locale/{language}/rules.yaml").keys() == RULES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_caption_that_rules_name_is_there_with_a_title_and_how_to_read_it(language: str):
    named = {name for path in RULE_FILES for name in re.findall(r'shown\("[^"]+", "\w+", "(\w+)"\)', path.read_text())}
    captions = {path.stem: " ".join(path.read_text().split()) for path in (ROOT / "report" / language).glob("*.rst")}
    titles = {key for key in catalogue(ROOT / f"src/minilab/locale/{language}/figures.yaml") if "." not in key}
    assert named
    assert captions.keys() == titles == named
    how_to_read = {"en": "How to read it", "es": "Cómo leerl"}[language]
    assert [name for name, text in captions.items() if how_to_read not in text] == []


def test_a_plural_and_a_decimal_mark_are_the_languages_own():
    text = Translations("minilab", "lab", "es")
    assert text("tally.files", count=1) == "1 fichero"
    assert text("tally.files", count=2) == "2 ficheros"
    assert text.number(3.14159, ".2f") == "3,14"
    assert text.number(0.95, ".0%") == "95\N{NO-BREAK SPACE}%"
    assert text.number(524288.5, ",.1f") == "524\N{NARROW NO-BREAK SPACE}288,5"


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: Translations("minilab", "lab", "fr"), "write one of en, es"),
        (lambda: Translations("minilab", "lab", "es")("no.such.key"), "minilab/locale/es/lab.yaml has no key"),
        (lambda: Translations("minilab", "lab", "en")("says.built"), "needs the field 'date'"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(ask, says):
    with pytest.raises(LabError, match=says):
        ask()


def test_what_rounds_to_zero_has_no_sign():
    assert number("en", -1e-6, ".2%") == "0.00%"
    assert number("en", -0.0) == "0.0"
    assert number("es", -0.004, ".3f") == "-0,004"
