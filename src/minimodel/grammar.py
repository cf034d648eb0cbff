"""The grammar behind the corpus: read it, sample from it, and know exactly what comes next.

A weighted context-free grammar with features, kept as data (data/grammar.yaml, data/lexicon.yaml). Because
the lab owns the distribution of its text, it also knows the limit that no model of that text can beat: the
conditional entropy of each word given the words before it. It follows from a left-to-right automaton whose
state is the stack of symbols still to be expanded (the grammar in Greibach form; Jelinek and Lafferty 1991,
Stolcke 1995, call the sums prefix probabilities). An ambiguous prefix leaves several stacks with their
posterior probabilities, and every probability is summed over all of them, so the numbers stay exact.
"""

import itertools
import math
import random
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

import yaml

from minilab import LabError

FULL_STOP = "."
LEXICON = Path(__file__).parent / "data/lexicon.yaml"
GRAMMAR = Path(__file__).parent / "data/grammar.yaml"
SYMBOL = re.compile(r"(\w+)(?:\[(\w+(?:,\w+)*)\])?")

# A word is a string, a category such as Verb[past_simple,plural] a tuple of its name and feature values.
Symbol = str | tuple[str, ...]
Stack = tuple[Symbol, ...]
Belief = tuple[tuple[Stack, float], ...]
Rules = dict[tuple[str, ...], dict[Stack, float]]


@dataclass(frozen=True)
class Prediction:
    """What may follow a prefix: each word's probability, the belief after it, and the entropy in nats."""

    probabilities: dict[str, float]
    beliefs: dict[str, Belief]
    entropy: float


class Grammar:
    """A weighted grammar over words: sampling and exact prediction.

    Args:
        rules: for each category, its expansions (tuples of symbols) with probabilities that sum to 1.
            `("Sentence",)` is the start. A full stop is put after every sentence.

    Raises:
        LabError: a category is not defined, expands to itself, or is never reached from the start.
    """

    def __init__(self, rules: Rules):
        self.rules = rules
        # the stack of symbols still to come, top first; the full stop is part of every sentence
        self.start: Belief = (((("Sentence",), FULL_STOP), 1.0),)
        _refuse_bad_references(rules)
        # Cumulative weights and reversed expansions, made once: a draw is one bisection, and pushing is `extend`.
        self._draw = {
            symbol: (list(accumulate(expansions.values())), [stack[::-1] for stack in expansions])
            for symbol, expansions in rules.items()
        }
        # Sentences share most of their stacks; without the caches, scoring a corpus would expand each of them anew. Per
        # object, since the results depend on its rules.
        self._next_words = cache(self._next_words)  # type: ignore[method-assign]
        self.predict = cache(self.predict)  # type: ignore[method-assign]

    @property
    def words(self) -> list[str]:
        """Every word that a sentence can hold, sorted, the full stop among them."""
        expansions = itertools.chain.from_iterable(self.rules.values())
        symbols = itertools.chain.from_iterable(expansions)
        return sorted({FULL_STOP} | {symbol for symbol in symbols if isinstance(symbol, str)})

    def sample(self, generator: random.Random) -> list[str]:
        """Draw one sentence as a list of words, full stop included."""
        words: list[str] = []
        stack: list[Symbol] = [FULL_STOP, ("Sentence",)]
        while stack:
            symbol = stack.pop()
            if isinstance(symbol, str):
                words.append(symbol)
            else:
                cumulative, reversed_expansions = self._draw[symbol]
                # The last sum may round to just under 1: the bound keeps the index inside.
                choice = bisect(cumulative, generator.random(), hi=len(cumulative) - 1)
                stack.extend(reversed_expansions[choice])
        return words

    def _next_words(self, stack: Stack) -> dict[str, dict[Stack, float]]:
        """For each word that can come first from `stack`: the stacks after it, with joint probabilities."""
        if not stack:
            return {}
        first, rest = stack[0], stack[1:]
        if isinstance(first, str):
            return {first: {rest: 1.0}}
        joint: dict[str, dict[Stack, float]] = {}
        for expansion, probability in self.rules[first].items():
            for word, stacks in self._next_words(expansion + rest).items():
                after = joint.setdefault(word, {})
                for remaining, share in stacks.items():
                    # Two derivations may leave the same stack: their probabilities
                    # add, or an ambiguous word would count too little.
                    after[remaining] = after.get(remaining, 0.0) + probability * share
        return joint

    def predict(self, belief: Belief) -> Prediction:
        """The exact distribution of the next word under `belief` (`self.start` at a sentence's start)."""
        joint: dict[str, dict[Stack, float]] = {}
        for stack, weight in belief:
            for word, stacks in self._next_words(stack).items():
                after = joint.setdefault(word, {})
                for remaining, share in stacks.items():
                    after[remaining] = after.get(remaining, 0.0) + weight * share
        # The word's probability is the sum over the stacks that can follow it; divided by it, these are the belief
        # after the word (Bayes). fsum, so that many small shares lose no digits.
        probabilities = {word: math.fsum(stacks.values()) for word, stacks in joint.items()}
        beliefs = {
            word: tuple((stack, share / probabilities[word]) for stack, share in stacks.items())
            for word, stacks in joint.items()
        }
        entropy = -math.fsum(p * math.log(p) for p in probabilities.values())
        return Prediction(probabilities, beliefs, entropy)

    def score(self, words: Iterable[str]) -> Iterator[tuple[float, float]]:
        """For each word of a text of whole sentences, given the words before it in its sentence.

        Yields:
            (log-probability of the word, entropy of the distribution that it was drawn from), in nats.

        Raises:
            LabError: the grammar cannot produce the word at that place.
        """
        belief = self.start
        for position, word in enumerate(words):
            prediction = self.predict(belief)
            if word not in prediction.probabilities:
                raise LabError(
                    f"the grammar cannot produce {word!r} as word {position + 1} of the text; "
                    "sample the corpus again from the present lexicon and grammar."
                )
            yield math.log(prediction.probabilities[word]), prediction.entropy
            # sentences are independent: after a full stop everything begins anew
            belief = prediction.beliefs[word] if word != FULL_STOP else self.start


def load_grammar(lexicon: str | Path = LEXICON, grammar: str | Path = GRAMMAR) -> Grammar:
    """Read a lexicon and a grammar (YAML files; the formats are described at their heads).

    Raises:
        LabError: a file is not what its head describes; the sentence names the file and the entry.
    """
    lexicon, grammar = Path(lexicon), Path(grammar)
    tables, syntax = _read(lexicon, {"words", "verbs"}), _read(grammar, {"features", "productions"})
    features: dict[str, dict[str, float]] = syntax["features"]
    for name, values in features.items():
        _require_weights(values, f"feature {name!r} in {grammar}")
    rules = _lexical_rules(tables, lexicon)
    for left, productions in syntax["productions"].items():
        _add_productions(rules, left, productions, features, grammar)
    return Grammar({symbol: _normalised(expansions) for symbol, expansions in rules.items()})


def _lexical_rules(tables: dict, path: Path) -> Rules:
    """One category for each table of words, and verb[frame,form] for each form of each verb."""
    rules: Rules = {}
    for category, weights in tables["words"].items():
        _require_weights(weights, f"category {category} in {path}")
        # an entry of several words is one expansion: they always stand together
        rules[_parse(category, path)] = {tuple(entry.split()): float(w) for entry, w in weights.items()}
    for frame, verbs in tables["verbs"].items():
        for verb in verbs:
            forms = {name: value for name, value in verb.items() if name != "weight"}
            if set(forms) != {"base", "third", "past", "participle", "gerund"} or "weight" not in verb:
                raise LabError(f"the verb {verb} in {path} must have base, third, past, participle, gerund and weight.")
            _require_weights({str(verb["base"]): verb["weight"]}, f"frame {frame!r} in {path}")
            for form, word in forms.items():
                if not isinstance(word, str):
                    raise LabError(f"the {form} of the verb {verb['base']} in {path} is {word!r}; quote it.")
                expansions = rules.setdefault(("verb", frame, form), {})
                # Two verbs of a frame may have one word in common: their weights add up.
                expansions[(word,)] = expansions.get((word,), 0.0) + verb["weight"]
    if any(FULL_STOP in word for expansions in rules.values() for words in expansions for word in words):
        raise LabError(f"a word in {path} holds a full stop; leave it out, every sentence is given its own.")
    return rules


def _add_productions(rules: Rules, left: str, productions: list, features: dict, path: Path) -> None:
    """Instantiate the productions of one left side for every value of every feature variable."""
    category = _parse(left, path)
    for production in productions:
        if not isinstance(production, dict) or set(production) != {"weight", "expand"}:
            raise LabError(f"the production {production!r} of {left} in {path} needs weight and expand only.")
        _require_weights({production["expand"]: production["weight"]}, f"{left} in {path}")
        symbols = [_parse(text, path) for text in production["expand"].split()]
        arguments = [name for symbol in (category, *symbols) for name in symbol[1:]]
        # A feature's name stands for each of its values in turn, the same one throughout the rule.
        variables = [name for name in dict.fromkeys(arguments) if name in features]
        for values in itertools.product(*(features[name] for name in variables)):
            binding = dict(zip(variables, values, strict=True))
            weight = float(production["weight"])
            # A variable that the left side lacks is drawn here: its value's own weight is part of the production's.
            for name in set(variables) - set(category[1:]):
                weight *= features[name][binding[name]]

            def bind(symbol: tuple[str, ...], binding: dict[str, str] = binding) -> tuple[str, ...]:
                return (symbol[0], *(binding.get(name, name) for name in symbol[1:]))

            expansions = rules.setdefault(bind(category), {})
            stack = tuple(bind(symbol) for symbol in symbols)
            expansions[stack] = expansions.get(stack, 0.0) + weight


def _refuse_bad_references(rules: Rules) -> None:
    """Walk all expansions from the start, depth first; recursion and undefined categories end the walk."""
    finished: set[tuple[str, ...]] = set()

    def walk(symbol: tuple[str, ...], above: tuple[tuple[str, ...], ...]) -> None:
        # Found on the way down: recursion would make sentences of
        # any length, and the prefix probabilities no finite sums.
        if symbol in above:
            raise LabError(f"{_show(symbol)} expands to itself; write the grammar without recursion.")
        if symbol not in rules:
            origin = _show(above[-1]) if above else "the grammar"
            raise LabError(f"{origin} uses {_show(symbol)}, which neither grammar nor lexicon defines.")
        if symbol not in finished:
            for child in dict.fromkeys(itertools.chain.from_iterable(rules[symbol])):
                if isinstance(child, tuple):
                    walk(child, (*above, symbol))
            finished.add(symbol)

    walk(("Sentence",), ())
    if unused := set(rules) - finished:
        raise LabError(f"{_show(min(unused))} is defined but no sentence uses it; use it or leave it out.")


def _read(path: Path, keys: set[str]) -> dict:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LabError(f"{path} cannot be read as YAML ({' '.join(str(error).split())}); correct it.") from None
    if not isinstance(content, dict) or set(content) != keys:
        raise LabError(f"{path} must have exactly the keys {' and '.join(sorted(keys))}.")
    return content


def _require_weights(weights: dict, place: str) -> None:
    if not isinstance(weights, dict) or not weights:
        raise LabError(f"{place} must map entries to weights.")
    for entry, weight in weights.items():
        if not isinstance(entry, str):
            raise LabError(f"the entry {entry!r} of {place} is not text; quote it.")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise LabError(f"the weight of {entry!r} in {place} is {weight!r}; make it a positive number.")


def _parse(text: str, path: Path) -> tuple[str, ...]:
    """`Verb[tense,plural]` as ("Verb", "tense", "plural")."""
    if not (match := SYMBOL.fullmatch(str(text))):
        raise LabError(f"{text!r} in {path} is not a symbol; write name or name[feature,feature].")
    name, arguments = match.groups()
    return (name, *(arguments.split(",") if arguments else ()))


def _show(symbol: tuple[str, ...]) -> str:
    return f"{symbol[0]}[{','.join(symbol[1:])}]" if len(symbol) > 1 else symbol[0]


def _normalised(expansions: dict[Stack, float]) -> dict[Stack, float]:
    total = math.fsum(expansions.values())
    return {stack: weight / total for stack, weight in expansions.items()}
