"""The refusal of a part of a profile, with the reason as an artefact holds it."""

from minilab import LabError


class NotProfiled(LabError):
    """What cannot be measured of a model.

    Attributes:
        reason: `code`, a key of `left_out` in the pages' `locale/*/profile.yaml`, and its fields.
    """

    def __init__(self, sentence: str, code: str, **fields: object) -> None:
        self.reason = {"code": code, **fields}
        super().__init__(sentence)
