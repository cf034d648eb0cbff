"""Plumbing that all stages share: errors, files, devices, configuration, records, translations, how a script runs."""

from minilab.errors import ConfigError, LabError

__all__ = ["ConfigError", "LabError"]
