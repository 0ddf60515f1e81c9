"""The teams of a replay whose runs have not begun: who is ready, who has left, who is kept out."""

from collections.abc import Collection, Mapping

from bci_stream.judge.session.sink import Sink
from tracks.common.reasons import Reason


class TeamsBeforeStart:
    """Follows teams from `ready` to the start of the run.

    kept_out: by track and team, whose run must not begin. track: empty before the replay's offer is known.
    ready: the teams that wait for the start. welcomed: those that the replay has welcomed. left: those that
    left before the start, and why.
    """

    def __init__(self, sink: Sink, kept_out: Mapping[tuple[str, str], Reason]) -> None:
        self._sink = sink
        self._kept_out = kept_out
        self.track = ""
        self.ready: set[str] = set()
        self.welcomed: set[str] = set()
        self.left: dict[str, Reason] = {}
        self._ready_outside: set[str] = set()

    def add(self, team: str) -> None:
        """A team is ready; it may have left before."""
        if team not in self.ready:
            self._sink.team(team, self.track, "waiting")
            self.ready.add(team)
            self.left.pop(team, None)

    def leave(self, team: str) -> None:
        """A team has left before the start, which waits for it no longer."""
        self.ready.discard(team)
        self.left[team] = Reason("left_before_start")
        self._sink.team(team, self.track, "missing", self.left[team])

    def is_kept_out(self, team: str) -> bool:
        return (self.track, team) in self._kept_out

    def add_outside(self, team: str) -> None:
        """A team that is kept out is ready."""
        self._ready_outside.add(team)

    def keep_out(self, team: str) -> None:
        if team in self.ready:
            self.ready.discard(team)
            self._ready_outside.add(team)

    def let_in(self, team: str) -> bool:
        """Take a team that was kept out; returns whether it is ready."""
        if team not in self._ready_outside:
            return False
        self._ready_outside.discard(team)
        self.add(team)
        return True

    def unanswered(self) -> set[str]:
        """Teams that the replay has welcomed, and that have not sent `ready` to this judge."""
        return self.welcomed - self.ready - self._ready_outside

    def show_stopped(self, began: Collection[str], why: Reason) -> None:
        """The replay has ended before the runs of these teams began."""
        for team in self.ready.difference(began):
            self._sink.team(team, self.track, "stopped", why)
