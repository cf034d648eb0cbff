"""A fact has no words of its own: those of its evidence are all that can be printed."""

import pytest
from jinja2 import Environment

from minicompile.explain.evidence import Fact, weakest
from minicompile.explain.wording import Wording

NOTED, SHOWN = Fact("it adds", "notes"), Fact("it adds", "values")


@pytest.mark.parametrize("fact", [NOTED, SHOWN])
def test_a_fact_cannot_be_printed_without_its_evidence(fact):
    for print_it in (str, "{}".format, lambda one: f"{one}", lambda one: ", ".join([one])):
        with pytest.raises(TypeError):
            print_it(fact)
    for escaped in (False, True):
        with pytest.raises(TypeError):
            Environment(autoescape=escaped).from_string("{{ fact }}").render(fact=fact)


@pytest.mark.parametrize(
    ("language", "notes", "within"),
    [
        ("en", "By Inductor's notes: it adds", "by Inductor's notes it adds"),
        ("es", "Según las notas de Inductor: it adds", "según las notas de Inductor it adds"),
    ],
)
def test_the_words_are_those_of_the_evidence(language, notes, within):
    wording = Wording(language)
    assert wording.told(NOTED) == notes
    assert wording.told(NOTED, within=True) == within
    assert wording.told(NOTED, under="notes") == "it adds"
    assert {wording.told(SHOWN), wording.told(SHOWN, under="notes"), wording.told(SHOWN, within=True)} == {"it adds"}
    assert wording.told(None) == ""


def test_what_follows_from_several_facts_is_as_sure_as_the_least():
    assert weakest(["values", "values"]) == weakest([]) == "values"
    assert weakest(["values", "notes"]) == "notes"
