"""Helper functions of the annotation's rules, beside those of common.smk: plain Python, no rules."""


def compared(side):
    """An input function: the capture that config's `before` or `after` names, as MODEL/DEVICE or as a file's path."""

    def capture(wildcards):
        named = config.get(side)
        if not named:
            raise WorkflowError(
                "diff_compiles compares two captures, and it is not said which; run `snakemake --cores 2 diff_compiles "
                "--config before=MODEL/DEVICE after=MODEL/DEVICE`, or give the paths of two capture.json."
            )
        return named if named.endswith(".json") else f"results/25/{named}/capture.json"

    return capture
