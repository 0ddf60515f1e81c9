"""A note is what the user should know of a device's bytes; each is told once.

A device that says something odd says it in every frame, a thousand times a second.
"""

MOST_TEXTS = 40
"""So many different notes are told; the rest is counted, and the count told now and then."""


class Notes:
    def __init__(self) -> None:
        self._told: set[str] = set()
        self._untold = 0
        self._waiting: list[str] = []

    def add(self, text: str) -> None:
        if text in self._told:
            return
        if len(self._told) < MOST_TEXTS:
            self._told.add(text)
            self._waiting.append(text)
            return
        self._untold += 1
        if str(self._untold).strip("0") == "1":  # 1, 10, 100, ...: never a flood
            self._waiting.append(
                f"{self._untold} more notes like the last ones: what the amplifier sends is not "
                "what we can read; check protocol= and the recorder's settings"
            )

    def take(self) -> list[str]:
        """What has not been given yet."""
        waiting, self._waiting = self._waiting, []
        return waiting
