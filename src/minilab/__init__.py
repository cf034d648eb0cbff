"""Plumbing that all stages share: errors, files, devices, configuration, records, how a script runs.

It knows what a run builds and where each result comes from. It knows no model, no kernel and no compiler, moves figures
and decides none of them.
"""

from minilab.errors import ConfigError, LabError

__all__ = ["ConfigError", "LabError"]
