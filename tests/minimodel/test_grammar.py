"""The grammar samples what it says it samples, and its probabilities are exact."""

import itertools
import math
import random
from collections import Counter

import pytest
import yaml

from minilab import LabError
from minimodel import grammar as grammar_files
from minimodel.grammar import FULL_STOP, Grammar, load_grammar

# "a b" has two derivations, and both stay open after "a".
AMBIGUOUS = Grammar(
    {
        ("Sentence",): {(("X",), ("Y",)): 0.5, (("Y",), "b"): 0.25, ("c",): 0.25},
        ("X",): {("a",): 0.75, (): 0.25},
        ("Y",): {("a",): 0.5, ("b",): 0.5},
    }
)


@pytest.fixture(scope="module")
def grammar():
    return load_grammar()


def derivations(grammar, stack, probability=1.0):
    """Every derivation from `stack` as (words, probability), by brute force."""
    if not stack:
        yield (), probability
        return
    first, rest = stack[0], stack[1:]
    expansions = {(first,): 1.0} if isinstance(first, str) else grammar.rules[first]
    for expansion, share in expansions.items():
        if isinstance(first, str):
            for words, p in derivations(grammar, rest, probability):
                yield (first, *words), p
        else:
            yield from derivations(grammar, expansion + rest, probability * share)


def sentence_log_probability(grammar, words):
    return sum(log_probability for log_probability, _ in grammar.score(words))


def test_probabilities_of_an_ambiguous_grammar_equal_the_sum_over_all_derivations():
    language = Counter()
    for words, probability in derivations(AMBIGUOUS, AMBIGUOUS.start[0][0]):
        language[words] += probability
    assert max(Counter(words for words, _ in derivations(AMBIGUOUS, AMBIGUOUS.start[0][0])).values()) > 1
    assert math.isclose(sum(language.values()), 1)
    for words, probability in language.items():
        assert math.isclose(math.exp(sentence_log_probability(AMBIGUOUS, words)), probability, rel_tol=1e-12)


def test_entropies_add_up_to_the_entropy_of_the_sentences():
    language = Counter()
    for words, probability in derivations(AMBIGUOUS, AMBIGUOUS.start[0][0]):
        language[words] += probability
    of_sentences = -sum(p * math.log(p) for p in language.values())
    chained = sum(p * sum(h for _, h in AMBIGUOUS.score(words)) for words, p in language.items())
    assert math.isclose(of_sentences, chained, rel_tol=1e-12)


def test_every_prediction_on_sampled_text_sums_to_one(grammar):
    generator = random.Random(0)
    for _ in range(200):
        belief = grammar.start
        for word in grammar.sample(generator):
            prediction = grammar.predict(belief)
            assert math.isclose(sum(prediction.probabilities.values()), 1, rel_tol=1e-12)
            belief = prediction.beliefs[word]


def test_a_form_that_two_tenses_share_leaves_both_open_until_the_time_marker(grammar):
    belief = grammar.start
    for word in ["We", "read", "the", "letter"]:
        belief = grammar.predict(belief).beliefs[word]
    after = grammar.predict(belief).probabilities
    assert after["yesterday"] > 0
    assert after["every"] > 0
    assert "tomorrow" not in after


@pytest.mark.parametrize(
    ("sentence", "possible"),
    [
        ("Yesterday I walked to the market .", True),
        ("Every day she walks to the market .", True),
        ("Tomorrow they will walk to the market .", True),
        ("Now I am walking to the market .", True),
        ("At noon they were walking to the market .", True),
        ("Recently he has eaten the bread .", True),
        ("Yesterday I walk to the market .", False),
        ("Every day she walk to the market .", False),
        ("Now I is walking to the market .", False),
        ("Recently he have eaten the bread .", False),
        ("Tomorrow they will walked to the market .", False),
        ("Yesterday The teacher walked to the market .", False),
    ],
)
def test_tense_and_agreement_hold(grammar, sentence, possible):
    words = sentence.split()
    if possible:
        assert sentence_log_probability(grammar, words) < 0
    else:
        with pytest.raises(LabError, match="cannot produce"):
            sentence_log_probability(grammar, words)


def test_the_five_likeliest_words_after_yesterday_i_are_past_simple_verbs(grammar):
    belief = grammar.start
    for word in ("Yesterday", "I"):
        belief = grammar.predict(belief).beliefs[word]
    probabilities = grammar.predict(belief).probabilities
    verbs = yaml.safe_load(grammar_files.LEXICON.read_text())["verbs"]
    past = {verb["past"] for frame in verbs.values() for verb in frame}
    assert set(sorted(probabilities, key=probabilities.get)[-5:]) <= past


def test_sampled_frequencies_agree_with_the_probabilities():
    generator = random.Random(1)
    counts = Counter(tuple(AMBIGUOUS.sample(generator)) for _ in range(20_000))
    for words, count in counts.items():
        p = math.exp(sentence_log_probability(AMBIGUOUS, words))
        assert abs(count / 20_000 - p) < 5 * math.sqrt(p * (1 - p) / 20_000)


def test_every_word_of_a_sample_is_listed_and_the_full_stop_comes_last(grammar):
    generator = random.Random(2)
    for words in itertools.islice(iter(lambda: grammar.sample(generator), None), 500):
        assert set(words) <= set(grammar.words)
        assert words.index(FULL_STOP) == len(words) - 1


LEXICON = {
    "words": {"who": {"I": 1}, "do[past]": {"walked": 1}, "do[now]": {"walk": 1}},
    "verbs": {
        "motion": [
            {"base": "go", "third": "goes", "past": "went", "participle": "gone", "gerund": "going", "weight": 1}
        ]
    },
}
SYNTAX = {
    "features": {"tense": {"past": 2, "now": 1}, "form": dict.fromkeys(LEXICON["verbs"]["motion"][0], 1)},
    "productions": {
        "Sentence": [{"weight": 3, "expand": "who do[tense]"}, {"weight": 1, "expand": "who verb[motion,form]"}]
    },
}
del SYNTAX["features"]["form"]["weight"]


def write(tmp_path, lexicon, syntax):
    paths = tmp_path / "lexicon.yaml", tmp_path / "grammar.yaml"
    for path, content in zip(paths, (lexicon, syntax), strict=True):
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return paths


def test_a_feature_that_the_left_side_leaves_open_multiplies_the_weights(tmp_path):
    grammar = load_grammar(*write(tmp_path, LEXICON, SYNTAX))
    after_i = grammar.predict(grammar.predict(grammar.start).beliefs["I"]).probabilities
    # Weights: 3 * 2 and 3 * 1 for the tenses, 1 * 1 for each of the five forms.
    assert math.isclose(after_i["walked"], 6 / 14)
    assert math.isclose(after_i["walk"], 3 / 14)
    assert math.isclose(after_i["went"], 1 / 14)


def changed(table, **changes):
    return {**table, **changes}


@pytest.mark.parametrize(
    ("lexicon", "syntax", "message"),
    [
        ("words: [", SYNTAX, "cannot be read as YAML"),
        ({"words": {}}, SYNTAX, "exactly the keys verbs and words"),
        (changed(LEXICON, words={"who": {"I": 0}}), SYNTAX, "make it a positive number"),
        (changed(LEXICON, words={"who": {"I": float("nan")}}), SYNTAX, "make it a positive number"),
        (changed(LEXICON, words={"who": {2019: 1}}), SYNTAX, "quote it"),
        (changed(LEXICON, words={"who": {}}), SYNTAX, "must map entries to weights"),
        (changed(LEXICON, words={"who": {"Mr.": 1}}), SYNTAX, "holds a full stop"),
        (changed(LEXICON, verbs={"motion": [{"base": "go", "weight": 1}]}), SYNTAX, "must have base, third"),
        (changed(LEXICON, words={"who there": {"I": 1}}), SYNTAX, "is not a symbol"),
        (LEXICON, changed(SYNTAX, productions={"Sentence": [{"expand": "who"}]}), "needs weight and expand"),
        (
            LEXICON,
            changed(SYNTAX, productions={"Sentence": [{"weight": 1, "expand": "Nobody"}]}),
            "uses Nobody, which neither",
        ),
        (
            LEXICON,
            changed(SYNTAX, productions={"Sentence": [{"weight": 1, "expand": "who Sentence"}]}),
            "expands to itself",
        ),
        (
            LEXICON,
            changed(SYNTAX, productions={"Sentence": [{"weight": 1, "expand": "who"}]}),
            "no sentence uses it",
        ),
        (LEXICON, changed(SYNTAX, productions={"Other": [{"weight": 1, "expand": "who"}]}), "uses Sentence"),
    ],
)
def test_a_faulty_file_is_refused_in_one_sentence(tmp_path, lexicon, syntax, message):
    with pytest.raises(LabError, match=message) as refusal:
        load_grammar(*write(tmp_path, lexicon, syntax))
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(LabError, match="cannot be read"):
        load_grammar(tmp_path / "absent.yaml")
