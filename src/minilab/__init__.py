"""What every stage shares: errors, files, devices, provenance, the frame of a script."""

from minilab.errors import LabError

__all__ = ["LabError"]
