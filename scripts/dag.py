"""Print the graph of the rules, as Mermaid and as a picture (rule dag)."""

from minilab.files import write_text
from minilab.pages.translations import Translations
from minilab.script import run
from minilab.site.account import Rule
from minilab.site.ask_snakemake import ask_snakemake
from minilab.site.rule_graph import draw_rule_graph, rule_graph_in_mermaid


def stage_of(outputs, text):
    """The stage that a rule's first output is filed under: results/24/... belongs to stage 24."""
    number = outputs[0].split("/")[1] if outputs else ""
    return text("graph.stage", number=number) if number.isdecimal() else text("graph.lab")


def main(job):
    config, rules = job.params.config, job.params.rules
    text = Translations("minilab", "lab", config["language"])
    stages = {rule["name"]: stage_of(rule["outputs"], text) for rule in rules}
    printed = ask_snakemake(config, "--rulegraph", "dot")
    write_text(job.output.svg, draw_rule_graph(printed, [Rule(**rule) for rule in rules], stages))
    write_text(job.output.mermaid, rule_graph_in_mermaid(printed))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
