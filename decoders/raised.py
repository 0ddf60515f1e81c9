"""What a contestant's code raised, in one line: the error, and where in their code it came from."""

from traceback import extract_tb


def told(error: BaseException) -> str:
    """E.g. "ValueError: no such lead (mine.py, line 12)"."""
    text = f"{type(error).__name__}: {error}"
    frames = extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:  # it says itself where
        return text
    place = frames[-1].filename.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{text} ({place}, line {frames[-1].lineno})"
