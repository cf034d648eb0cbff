"""Results that Snakemake no longer knows: they must not pass as those of today's configuration.

Snakemake remembers the parameters of each result in `.snakemake`. When that folder is lost, or results were copied from
elsewhere, only files' times are left to it; but every artefact holds the parameters that it was made with.
"""

import base64
import re
from pathlib import Path

from minilab.errors import LabError
from minilab.files import read_object
from minilab.records.artefact import TABLE
from minilab.records.content import changed_since
from minilab.records.provenance import provenances
from minilab.records.store import changed_params

METADATA = Path(".snakemake/metadata")
SHOWN = 3


def refuse_results_of_another_configuration(config: dict) -> None:
    """Refuse to go on with results that were made with another configuration and that Snakemake has no notes on.

    Raises:
        LabError: there are such; the sentence says how to remove them.
    """
    other = []
    for entry in TABLE:
        for path in sorted(Path().glob(re.sub(r"{\w+}", "*", entry.pattern))):
            # Snakemake itself sees to those that it has notes on
            if is_noted(path):
                continue
            try:
                artefact = read_object(path)
                changed = bool(changed_params(path, artefact, config))
                if "restored" in artefact:  # which says itself what has changed since it was measured
                    known = artefact["restored"]["reasons"]
                    changed = changed and not any(reason["code"] == "parameter_changed" for reason in known)
                else:  # what a user's code opened is known to nobody else any more
                    changed = changed or any(map(changed_since, provenances(artefact).values()))
                if changed:
                    other.append(str(path))
            except (LabError, KeyError, TypeError, AttributeError):
                continue  # whoever reads it says what is wrong with it
    if other:
        files = " ".join(other[:SHOWN]) + (f" and {len(other) - SHOWN} more" if len(other) > SHOWN else "")
        raise LabError(
            f"{files}: made with another configuration than this one, or of files of yours that have changed since, "
            "and Snakemake's notes on them are gone, so it would take them for up to date; delete them, and they are "
            "built again."
        )


def is_noted(path: str | Path, metadata: Path = METADATA) -> bool:
    """Whether Snakemake remembers how a result was made."""
    # the file names under .snakemake/metadata, as Snakemake makes them
    return (metadata / base64.urlsafe_b64encode(Path(path).as_posix().encode()).decode()).exists()
