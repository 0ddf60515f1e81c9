"""Words of a stranger, made fit for a terminal: nothing in them moves the cursor or hides the rest."""


def printable(text: str, most: int = 2000) -> str:
    """The same in one line of at most so many signs; each sign that does not print as its escape."""
    shown = "".join(
        sign if sign.isprintable() or sign == "\t" else sign.encode("unicode_escape").decode()
        for sign in text[:most]
    )
    return shown if len(text) <= most else f"{shown} ... ({len(text)} signs)"
