"""The exceptions whose messages a user reads."""


class LabError(Exception):
    """A refusal in one sentence: what is wrong, where, and what to do about it.

    Scripts turn it into that sentence on stderr and in the job's log, and exit with status 1;
    any other exception is a bug and keeps its traceback.
    """


class ConfigError(LabError, ValueError):
    """A configuration that cannot be: an unknown key, or a value that is none of those allowed."""
