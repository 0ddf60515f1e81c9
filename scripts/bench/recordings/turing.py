"""The turing part of the decoders' benchmark: its SSVEP side, on recorded flicker, causally.

Recordings are pairs of FIF files a person (events 1 rest, 2 13 Hz, 3 21 Hz, 4 17 Hz; 5 s a
trial). They become sessions of the track: each run a block, each trial a task trigger with the
three frequencies and idling as candidates. Two measures: the track's own score, and the share of
right answers when every method must answer at the same moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from decoders.decoder import Decoder
from decoders.offline import OfflineRun, run_offline, track_of
from decoders.turing.decoder import TuringDecoder
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError, read_each
from scripts.bench.recordings.references import CanonicalCorrelation, Recited
from scripts.bench.table import Row, mean, row_of
from tracks.common.codes import BLOCK_START
from tracks.turing import TASK_S

FREQUENCIES_HZ = {3: 13.0, 4: 21.0, 5: 17.0}
IDLE = 7
TASK_OF_EVENT = {1: IDLE, 2: 3, 3: 4, 4: 5}
BEHAVIOUR_OF_TASK = {3: 1, 4: 4, 5: 5, IDLE: 1}
TASKS = dict.fromkeys(BEHAVIOUR_OF_TASK.values(), (3, 4, 5, IDLE))
"""The track has no behaviour that allows all of these, so the codes take one that allows the task;
for the decoder each allows all, so that it learns nothing from them."""
CODES = {8 * behaviour + task for task, behaviour in BEHAVIOUR_OF_TASK.items()}
WINDOWS_S = (2.0, 3.0, 4.96)
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
    folders = [path for path in sorted((data_dir / "ssvep").glob("*")) if path.is_dir()]
    people = list(read_each(folders, read_person))
    if not people:
        return []
    methods = {
        OURS: [_ours(person) for person in people],
        "CCA": [_correlated(person, bands=1) for person in people],
        "FBCCA, 3 bands": [_correlated(person, bands=3) for person in people],
        "FBCCA, 5 bands": [_correlated(person, bands=5) for person in people],
    }
    rows = [_score_row(name, results) for name, results in methods.items() if name == OURS]
    if len(people) > 1:  # a reference's threshold for rest needs other people
        rows += [
            _best_window_row(name, results) for name, results in methods.items() if name != OURS
        ]
    for window_s in WINDOWS_S:
        rows += [_accuracy_row(name, results, window_s) for name, results in methods.items()]
    return rows


def read_person(folder: Path) -> Recording:
    """All runs of one person, a block each."""
    blocks, kinds = [], set()
    for path in sorted(folder.glob("*_raw.fif")):
        events_path = path.with_name(path.name.replace("_raw.fif", "-eve.fif"))
        if not events_path.exists():
            continue
        raw = mne.io.read_raw_fif(path, preload=True, verbose="error").pick("eeg")
        events = mne.read_events(events_path, verbose="error")
        kinds.add((float(raw.info["sfreq"]), tuple(raw.ch_names)))
        signal = np.asarray(raw.get_data().T * 1e6, dtype=np.float32)
        whole_samples = TASK_S * raw.info["sfreq"]
        triggers = _triggers(events, raw.first_samp, len(signal), whole_samples)
        blocks.append(ArrayBlock(signal, triggers))
    if not blocks:
        raise NotThisLayoutError("no *_raw.fif with a *-eve.fif beside it")
    if len(kinds) > 1:
        raise NotThisLayoutError("its runs have different rates or leads")
    tasks = {code % 8 for block in blocks for _, code in block.triggers if code in CODES}
    if not set(FREQUENCIES_HZ) <= tasks:
        raise NotThisLayoutError(f"no whole trial ({TASK_S:g} s) of one of events 2, 3 and 4")
    rate, names = kinds.pop()
    return Recording(folder.name, rate, tuple(Lead(name) for name in names), blocks)


def _triggers(
    events: NDArray[np.int64], first: int, n: int, whole_samples: float
) -> tuple[tuple[int, int], ...]:
    """Of trials that last to their end before the next event and the recording's end."""
    places = [int(at) - first for at, _, _ in events]
    ends = [*places[1:], n]
    trials = [
        (at, TASK_OF_EVENT[code])
        for at, end, (_, _, code) in zip(places, ends, events.tolist(), strict=True)
        if code in TASK_OF_EVENT and end - at >= whole_samples
    ]
    return ((0, BLOCK_START), *((at, 8 * BEHAVIOUR_OF_TASK[task] + task) for at, task in trials))


def _ours(person: Recording) -> PersonResult:
    at: dict[float, list[int]] = {window: [] for window in WINDOWS_S}
    packet_samples = track_of("turing").packet_samples_at(person.rate)

    def watch(tasks: Sequence[int], path: NDArray[np.float64]) -> None:
        flicker = [number for number, task in enumerate(tasks) if task != IDLE]
        for window in WINDOWS_S:
            steps = int(window * person.rate) // packet_samples
            belief = path[min(steps, len(path)) - 1, flicker]
            at[window].append(tasks[flicker[int(np.argmax(belief))]])

    decoder = TuringDecoder(frequencies_hz=FREQUENCIES_HZ, tasks_of_behaviour=TASKS, watch=watch)
    return _told(decoder, person, at, {})


def _correlated(person: Recording, bands: int) -> PersonResult:
    decoder = CanonicalCorrelation(FREQUENCIES_HZ, WINDOWS_S, bands)
    return _told(decoder, person, decoder.answers, decoder.strengths)


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


def _score_row(name: str, results: list[PersonResult]) -> Row:
    return _scored(name, [one.outcome.score for one in results], results, "stops when it is sure")


def _best_window_row(name: str, results: list[PersonResult]) -> Row:
    """The reference at the window that suits it best, with a threshold for rest.

    The threshold is fitted on the OTHER people's labels, which ours never sees: a generous reference.
    """
    scores = {window: _scores_with_rest(results, window) for window in WINDOWS_S}
    best = max(WINDOWS_S, key=lambda window: float(np.mean(scores[window])))
    note = f"at {best} s, its best window; rest below a strength fitted on the others' labels"
    return _scored(name, scores[best], results, note)


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


def _scored(name: str, scores: list[float], results: list[PersonResult], note: str) -> Row:
    return row_of(
        scores,
        mean,
        "people",
        measure="track score, 3 frequencies + rest",
        n=sum(len(one.truth) for one in results),
        note=f"{note}; a block with less than 80 % right scores 0",
        **_common(name, results),
    )


def _accuracy_row(name: str, results: list[PersonResult], window_s: float) -> Row:
    return row_of(
        [_share_right(one, window_s) for one in results],
        mean,
        "people",
        measure=f"right of 3 frequencies at {window_s} s",
        n=sum(label != IDLE for one in results for label in one.truth),
        note="rests left out; all methods choose among the frequencies",
        **_common(name, results),
    )


def _common(name: str, results: list[PersonResult]) -> dict[str, Any]:
    return {
        "track": "turing",
        "data": f"SSVEP, {len(results)} people",
        "method": name,
        "ours": name == OURS,
        "compute_s": np.concatenate([one.outcome.compute_s for one in results]),
    }


def _share_right(result: PersonResult, window_s: float) -> float:
    pairs = zip(result.truth, result.at[window_s], strict=True)
    return float(np.mean([answer == true for true, answer in pairs if true != IDLE]))
