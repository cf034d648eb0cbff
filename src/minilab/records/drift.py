"""What changed between two builds of the lab, and what that changed, from their `lab.lock.json`."""

from minilab.config.check import check_schema, read_schema
from minilab.errors import LabError

INPUTS = {"machine": "machine", "packages": "package", "config": "config", "sources": "source", "choices": "choices"}
DIGEST_DIGITS = 64
SCHEMA = "schemas/lock.schema.yaml"


def drift(before: dict, after: dict) -> dict[str, list[str]]:
    """Compare two locks.

    Args:
        before, after: as `minilab.records.lock.lock` makes them.

    Returns:
        `changed`: a sentence for each input that is not the same; `results`: one for each result or graph that is not
        the same, with the changed inputs that it is made from.

    Raises:
        LabError: one of them is no lock of this version of the lab.
    """
    for which, given in (("first", before), ("second", after)):
        check_schema(given, read_schema(SCHEMA), f"the {which} lab.lock.json", "write both with `snakemake lock`.")
        if missing := sorted({*INPUTS, "graphs", "results"} - given.keys()):
            raise LabError(f"the {which} lab.lock.json has no {missing[0]!r}; write both with `snakemake lock`.")
    changes = {section: _changes(before[section], after[section]) for section in INPUTS}
    inputs = [f"{word} {change}" for section, word in INPUTS.items() for change in changes[section].values()]
    return {"changed": inputs, "results": [*_results(before, after, changes), *_graphs(before, after, changes)]}


def _changes(before: dict, after: dict) -> dict[str, str]:
    """Name -> what happened to it; digests are not spelled out."""

    def said(name: str) -> str:
        if name not in after:
            return f"{name} is gone"
        if name not in before:
            return f"{name} is new"
        # a digest says nothing to people, a version or a number does
        if isinstance(before[name], dict) or len(str(before[name])) == DIGEST_DIGITS:
            return f"{name} has changed"
        return f"{name}: {before[name]} -> {after[name]}"

    names = [*before, *(name for name in after if name not in before)]
    return {name: said(name) for name in names if before.get(name) != after.get(name)}


def _results(before: dict, after: dict, changes: dict[str, dict[str, str]]) -> list[str]:
    old, new = before["results"], after["results"]
    moved = [name for name in new if name in old and old[name]["sha256"] != new[name]["sha256"]]
    sentences = []
    for name in moved:
        of = new[name]
        because = [
            # sources of either build: one that is gone was the old one's
            *(said for path, said in changes["sources"].items() if path in {*of["sources"], *old[name]["sources"]}),
            *(
                f"config {said}"
                for key, said in changes["config"].items()
                if any(key == section or key.startswith(f"{section}.") for section in of["config"])
            ),
            # a result that is made of others names those, and they name what changed for them
            *(f"{path} has changed" for path in of["of"] if path in moved),
        ]
        sentences.append(f"{name} has changed: {'; '.join(because) or _surroundings(changes)}")
    sentences += [f"{name} is gone" for name in old if name not in new]
    return [*sentences, *(f"{name} is new" for name in new if name not in old)]


def _graphs(before: dict, after: dict, changes: dict[str, dict[str, str]]) -> list[str]:
    # a captured graph is made of the model, the compiler and the hooks: any of the lab's code may be the cause
    decisive = [said for path, said in changes["sources"].items() if path.startswith("src/")]
    config = [f"config {said}" for key, said in changes["config"].items() if key.startswith(("capture.", "model"))]
    because = "; ".join([*_compilers(changes), *config, *decisive]) or _surroundings(changes)
    return [f"{said}: {because}" for said in _changes(before["graphs"], after["graphs"]).values()]


def _compilers(changes: dict[str, dict[str, str]]) -> list[str]:
    return [f"package {said}" for name, said in changes["packages"].items() if name in ("torch", "triton")]


def _surroundings(changes: dict[str, dict[str, str]]) -> str:
    """What is left to blame when nothing that a result is made from has changed."""
    around = [*changes["machine"].values(), *(f"package {said}" for said in changes["packages"].values())]
    return "; ".join(around) or "nothing that it is made from has, so it is not deterministic"


def described(found: dict[str, list[str]]) -> str:
    """The comparison in Markdown."""

    def listed(sentences: list[str]) -> str:
        return "\n".join(f"- {sentence}" for sentence in sentences) or "Nothing."

    return (
        f"# What changed between two builds\n\n{listed(found['changed'])}\n\n"
        f"## What that changed\n\n{listed(found['results'])}\n"
    )
