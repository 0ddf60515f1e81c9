"""The turing part of the decoders' benchmark: its SSVEP side, on recorded flicker, causally.

People with the same frequencies make a set; each trial is a task trigger with these frequencies and
idling as candidates. Two measures: the track's own score, and the share of right answers when every
method must answer at the same moment, also in the first trials alone. The track's own frequencies
are simulated (`close_flicker`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoders.decoder import Decoder
from decoders.offline import OfflineRun, run_offline, track_of
from decoders.turing.decoder import TuringDecoder
from replay.model.recording import Recording
from scripts.bench.recordings.close_flicker import close_flicker_rows
from scripts.bench.recordings.flicker import (
    BEHAVIOUR_OF_TASK,
    IDLE,
    FlickerRecording,
    flicker_sets,
)
from scripts.bench.recordings.references import CanonicalCorrelation, Recited
from scripts.bench.table import Row, mean, row_of

WINDOWS_S = (2.0, 3.0, 4.96)
FIRST_TRIALS = 20
OURS = "turing-phase"


@dataclass
class PersonResult:
    """A method on one person: the judged run, and its answers at each of WINDOWS_S.

    strengths: confidence in each, in the method's own measure; ours needs none.
    """

    person: Recording
    outcome: OfflineRun
    truth: list[int]
    at: dict[float, list[int]]
    strengths: dict[float, list[float]]


def run(data_dir: Path) -> list[Row]:
    """Rows of all people in data_dir/ssvep."""
    rows: list[Row] = []
    for people in flicker_sets(data_dir):
        rows += set_rows(people)
        if people[0].kind[1] >= max(WINDOWS_S):
            sessions = [person.session for person in people]
            rows += close_flicker_rows(sessions, people[0].frequencies_hz)
    return rows


def set_rows(people: Sequence[FlickerRecording]) -> list[Row]:
    """Rows of people with the same frequencies."""
    windows = [window for window in WINDOWS_S if window < people[0].trial_s]
    methods = {
        OURS: [_ours(person, windows) for person in people],
        "CCA": [_correlated(person, windows, bands=1) for person in people],
        "FBCCA, 3 bands": [_correlated(person, windows, bands=3) for person in people],
        "FBCCA, 5 bands": [_correlated(person, windows, bands=5) for person in people],
    }
    hz = people[0].kind[0]
    name = f"SSVEP {', '.join(f'{each:g}' for each in hz)} Hz, {len(people)} people"
    rows = [_score_row(name, OURS, methods[OURS])]
    rests = any(IDLE in one.truth for one in methods[OURS])
    if len(people) > 1 and rests:  # a reference's threshold for rest needs other people
        rows += [
            _best_window_row(name, method, results, windows)
            for method, results in methods.items()
            if method != OURS
        ]
    for window_s in windows:
        for method, results in methods.items():
            rows.append(_accuracy_row(name, method, results, window_s, len(hz), None))
            rows.append(_accuracy_row(name, method, results, window_s, len(hz), FIRST_TRIALS))
    return rows


def _ours(person: FlickerRecording, windows: Sequence[float]) -> PersonResult:
    at: dict[float, list[int]] = {window: [] for window in windows}
    session = person.session
    packet_samples = track_of("turing").packet_samples_at(session.rate)

    def watch(tasks: Sequence[int], path: NDArray[np.float64]) -> None:
        flicker = [number for number, task in enumerate(tasks) if task != IDLE]
        for window in windows:
            steps = int(window * session.rate) // packet_samples
            belief = path[min(steps, len(path)) - 1, flicker]
            at[window].append(tasks[flicker[int(np.argmax(belief))]])

    tasks = (*person.frequencies_hz, IDLE)
    decoder = TuringDecoder(
        frequencies_hz=person.frequencies_hz,
        tasks_of_behaviour=dict.fromkeys(BEHAVIOUR_OF_TASK.values(), tasks),
        watch=watch,
    )
    return _told(decoder, session, at, {})


def _correlated(person: FlickerRecording, windows: Sequence[float], bands: int) -> PersonResult:
    decoder = CanonicalCorrelation(person.frequencies_hz, windows, bands)
    return _told(decoder, person.session, decoder.answers, decoder.strengths)


def _told(
    decoder: Decoder,
    person: Recording,
    at: dict[float, list[int]],
    strengths: dict[float, list[float]],
) -> PersonResult:
    outcome = run_offline("turing", decoder, [person])
    truth = next(event for event in outcome.events if event["kind"] == "truth")
    labels = [int(label) for block in truth["blocks"] for label in block]
    return PersonResult(person, outcome, labels, at, strengths)


def _score_row(name: str, method: str, results: list[PersonResult]) -> Row:
    scores = [one.outcome.score for one in results]
    return _scored(name, method, scores, results, "stops when it is sure")


def _best_window_row(
    name: str, method: str, results: list[PersonResult], windows: Sequence[float]
) -> Row:
    """The reference at the window that suits it best, with a threshold for rest.

    The threshold is fitted on the OTHER people's labels, which ours never sees: a generous reference.
    """
    scores = {window: _scores_with_rest(results, window) for window in windows}
    best = max(windows, key=lambda window: float(np.mean(scores[window])))
    note = f"at {best} s, its best window; rest below a strength fitted on the others' labels"
    return _scored(name, method, scores[best], results, note)


def _scores_with_rest(results: list[PersonResult], window_s: float) -> list[float]:
    scores = []
    for number, one in enumerate(results):
        threshold = _rest_below([*results[:number], *results[number + 1 :]], window_s)
        pairs = zip(one.at[window_s], one.strengths[window_s], strict=True)
        answers = [task if strength >= threshold else IDLE for task, strength in pairs]
        scores.append(run_offline("turing", Recited(answers, window_s), [one.person]).score)
    return scores


def _rest_below(others: list[PersonResult], window_s: float) -> float:
    """The strength that parts rest from flicker best in other people's labelled trials."""
    strength = np.concatenate([one.strengths[window_s] for one in others])
    answers = np.concatenate([one.at[window_s] for one in others])
    truth = np.concatenate([one.truth for one in others])
    tried = np.quantile(strength, np.linspace(0, 1, 101))
    right = [np.mean(np.where(strength >= limit, answers, IDLE) == truth) for limit in tried]
    return float(tried[int(np.argmax(right))])


def _scored(
    name: str, method: str, scores: list[float], results: list[PersonResult], note: str
) -> Row:
    return row_of(
        scores,
        mean,
        "people",
        measure="track score, frequencies and rest",
        n=sum(len(one.truth) for one in results),
        note=f"{note}; a block with less than 80 % right scores 0",
        **_common(name, method, results),
    )


def _accuracy_row(
    name: str,
    method: str,
    results: list[PersonResult],
    window_s: float,
    choices: int,
    first: int | None,
) -> Row:
    """first: how many trials from the beginning count; None: all."""
    right = [_right(one, window_s)[:first] for one in results]
    when = "" if first is None else f", first {first} trials"
    return row_of(
        [mean(own) for own in right],
        mean,
        "people",
        measure=f"right of {choices} frequencies at {window_s} s{when}",
        n=sum(len(own) for own in right),
        note="rests left out; all methods choose among the frequencies",
        **_common(name, method, results),
    )


def _common(name: str, method: str, results: list[PersonResult]) -> dict[str, Any]:
    return {
        "track": "turing",
        "data": name,
        "method": method,
        "ours": method == OURS,
        "compute_s": np.concatenate([one.outcome.compute_s for one in results]),
    }


def _right(result: PersonResult, window_s: float) -> list[float]:
    """Of each trial with flicker: 1 where the answer was right."""
    pairs = zip(result.truth, result.at[window_s], strict=True)
    return [float(answer == true) for true, answer in pairs if true != IDLE]
