"""Helper functions of the front door: plain Python, no rules."""

from minilab.translations import Translations
from snakemake.io import get_flag_value, is_flagged, strip_wildcard_constraints

NO_DEVICE = any_of([])


def shown(path, stage, caption):
    """An output that `snakemake --report` shows: its stage as the category, caption and labels in config's language."""
    figures = Translations("minilab", "figures", config["language"])
    labels = {figures("label.what"): figures(caption)}
    return report(
        path,
        caption=f"../report/{config['language']}/{caption}.rst",
        category=Translations("minilab", "stages", config["language"])(f"{stage}.title"),
        labels=labels | {figures(f"label.{name}"): f"{{{name}}}" for name in re.findall(r"{(\w+)}", path)},
    )


def described(workflow):
    """All rules but `all`, in the workflow's order, as the front door's page takes them (minilab.site.account.Rule)."""
    return [described_rule(rule) for rule in workflow.rules if rule.name != "all"]


def says(rule):
    """A rule's docstring, on one line, in config's language; English is what stands in the rule."""
    if config["language"] == "en":
        return " ".join(rule.docstring.split())
    return Translations("minilab", "rules", config["language"])(rule.name)


def described_rule(rule):
    """One rule: its words, its stage (the .smk file it stands in), its patterns, its captions, whether it lacks a device."""
    outputs = [strip_wildcard_constraints(pattern) for pattern in rule.output]
    folder = Path(rule.snakefile).parent
    return {
        "name": rule.name,
        "docstring": says(rule),
        "stage": Path(rule.snakefile).stem,
        "script": rule.script and os.path.relpath(folder / rule.script),
        "outputs": outputs,
        "log": strip_wildcard_constraints(rule.log[0]) if rule.log else None,
        "benchmark": rule.benchmark and strip_wildcard_constraints(rule.benchmark),
        "captions": {
            output: os.path.relpath(folder / get_flag_value(pattern, "report").caption)
            for output, pattern in zip(outputs, rule.output, strict=True)
            if is_flagged(pattern, "report")
        },
        "needs_gpu": rule.wildcard_constraints.get("device") == NO_DEVICE,
    }
