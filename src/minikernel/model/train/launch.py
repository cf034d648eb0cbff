"""`train`: MiniGPT trained in one launch."""
from pathlib import Path

SOURCE = Path(__file__).parent / "train.cu"
EXPRESSION = "train_minigpt"


def instances() -> list[str]:
    """The kernel, as the tests compile it for a GPU that is not here."""
    return [EXPRESSION]
