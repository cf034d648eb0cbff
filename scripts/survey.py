"""Write the survey of the four patterns and draw what they cost (rule survey)."""

from minicompile.report.survey import survey
from minicompile.report.survey_plot import draw
from minilab.files import replacing
from minilab.records.store import read_artefact, read_artefacts
from minilab.script import run
from minilab.site.glossary import write_linked
from minimodel.model_config import MiniGPTConfig


def main(job):
    artefacts = read_artefacts(job.input.data, job.config)
    tokens = read_artefact(job.input.vocabulary, job.config)["tokens"]
    minigpt = MiniGPTConfig(vocab_size=len(tokens), **job.params.model)
    with replacing(job.output.picture) as picture:
        draw(artefacts, picture, job.params.language)
    write_linked(job.output.survey, survey(artefacts, minigpt, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
