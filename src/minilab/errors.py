"""The exceptions whose messages a user reads."""

LONGEST = 600  # characters of a sentence; what it quotes may come from a file or from a user's code, of any length


class LabError(Exception):
    """A refusal in one sentence: what is wrong, where, and what to do about it.

    Scripts turn it into that sentence on stderr and in the job's log, and exit with status 1;
    any other exception is a bug and keeps its traceback. A sentence is kept readable whatever it quotes: `readable`.
    """

    def __init__(self, *said: object) -> None:
        super().__init__(*(readable(part) if isinstance(part, str) else part for part in said))


class ConfigError(LabError, ValueError):
    """A configuration that cannot be: an unknown key, or a value that is none of those allowed."""


def readable(text: str, longest: int = LONGEST) -> str:
    """The text in at most `longest` characters, control characters (a terminal obeys some) as escapes.

    What is too long loses its middle: the beginning says what is wrong and where, the end what to do.
    """
    half = (longest - 3) // 2
    if len(text) > longest:
        text = f"{text[:half]} … {text[-half:]}"
    plain = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return plain if len(plain) <= longest else f"{plain[:half]} … {plain[-half:]}"
