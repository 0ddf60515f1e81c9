"""Every shipped decoder keeps the laws, and each law catches a decoder that breaks it."""

import itertools

import numpy as np
import pytest
from click.testing import CliRunner

from decoders.checks import sample_session
from decoders.cli import main
from decoders.erp.references import XdawnLda
from decoders.mi.decoder import MiDecoder
from decoders.mi.references import CspLda, Mdm, TangentSpaceLr
from decoders.mi.training import fit
from decoders.registry import DECODERS, load
from tests.decoders.laws import CAUSAL, broken
from tracks.registry import TRACKS

pytestmark = pytest.mark.slow

UNTRAINED = sorted(
    {name for name in DECODERS if not name.endswith("-pipeline")}
    - {"erp-xdawn", "mi-csp", "mi-mdm", "mi-svm", "mi-ts"}
)


@pytest.fixture(scope="module")
def samples() -> dict[str, object]:
    return {track: sample_session(track) for track in TRACKS}


@pytest.mark.parametrize("name", UNTRAINED)
def test_every_shipped_decoder_keeps_the_laws(name: str, samples) -> None:
    track = DECODERS[name].track
    assert broken(track, lambda: load(name, track), samples[track]) == []


@pytest.mark.parametrize("trained", [CspLda, Mdm, TangentSpaceLr, "ours"])
def test_trained_mi_decoders_keep_the_laws(trained, mi_session) -> None:
    decoder_class = MiDecoder if trained == "ours" else trained
    train = fit if trained == "ours" else trained.fit
    model = train([mi_session(blocks=1)], seed=0, progress=lambda _: None)
    session = mi_session(blocks=1, trials=3, seed=4)
    most = None if trained == "ours" else CAUSAL
    assert broken("mi", lambda: decoder_class(model=model), session, most) == []


def test_a_trained_erp_decoder_keeps_the_laws(erp_session) -> None:
    model = XdawnLda.fit([erp_session(text="AB")], seed=0, progress=lambda _: None)
    session = erp_session(text="CD", seed=2)
    assert broken("erp", lambda: XdawnLda(model=model), session, CAUSAL) == []


def test_every_track_has_a_sample(samples) -> None:
    assert set(TRACKS) == set(TRACKS) == set(samples)


class Fair:
    """Reports the sign of what it saw after each imagery."""

    def start(self, info) -> None:
        self.total, self.n = 0.0, 0

    def step(self, packet) -> list[int]:
        self.total += float(np.nansum(packet.signal))
        return [1 if self.total > 0 else 2 for _, code in packet.triggers if code == 241]


class Changes(Fair):
    def step(self, packet):
        packet.samples[:, 0] = 0
        return super().step(packet)


class CountsPackets(Fair):
    def step(self, packet):
        self.n += 1
        return [1 + self.n % 3 for _, code in packet.triggers if code == 241]


class Hoards(Fair):
    def step(self, packet):
        self.mine = [*getattr(self, "mine", []), np.repeat(packet.samples, 16)]
        return super().step(packet)


class Fragile(Fair):
    def step(self, packet):
        if not np.isfinite(packet.samples).all():
            raise ValueError("not a number")
        return super().step(packet)


class Silent(Fair):
    def step(self, packet):
        return []


class NeedsAllLeads(Fair):
    def step(self, packet):
        return super().step(packet) if packet.signal.shape[1] == 8 else []


class OtherYear(Fair):
    def step(self, packet):
        return [200 + number for number in super().step(packet)]


class Moody(Fair):
    moods = itertools.count()

    def start(self, info) -> None:
        super().start(info)
        self.mood = next(self.moods)

    def step(self, packet):
        return [1 + self.mood % 3 for _ in super().step(packet)]


@pytest.mark.parametrize(
    ("decoder", "law"),
    [
        (Changes, "input not changed"),
        (CountsPackets, "same for any split"),
        (Fragile, "NaN leads"),
        (Hoards, "bounded memory"),
        (Silent, "runs and reports"),
        (NeedsAllLeads, "missing leads"),
        (Moody, "deterministic"),
        (OtherYear, "none of its 3 results names a class of mi, such as 20"),
    ],
)
def test_a_law_catches_who_breaks_it(decoder, law: str, mi_session) -> None:
    session = mi_session(blocks=1, trials=3)
    assert law in " ".join(broken("mi", decoder, session))


def test_seeing_the_future_is_caught(mi_session) -> None:
    """Only a decoder that got hold of the recording could: this one has."""
    session = mi_session(blocks=1, trials=3)
    later = {}

    class Seer(Fair):
        def step(self, packet):
            later[packet.start] = float(packet.samples[0, 0])
            ahead = later.get(packet.start + 625, 0.0)
            return [1 if ahead > 300 else 2 for _, code in packet.triggers if code == 241]

    assert "nothing before its data" in " ".join(broken("mi", Seer, session))


class Named(Fair):
    """Classes by their names, which the rules allow."""

    def step(self, packet):
        return [("left", "right")[reported - 1] for reported in super().step(packet)]


def test_a_class_may_go_by_its_name(mi_session) -> None:
    assert broken("mi", Named, mi_session(blocks=1, trials=3)) == []


@pytest.mark.parametrize("returned", [None, 1, "left"])
def test_what_is_no_list_of_results_is_reported_in_words(returned: object, mi_session) -> None:
    class Wrong(Fair):
        def step(self, packet):
            return returned

    (found,) = broken("mi", Wrong, mi_session(blocks=1, trials=3))
    assert f"step() returned {returned!r}; it returns a list" in found


WAITS_FOR_249 = """
class Old:
    def start(self, info):
        assert info.rate == 250

    def step(self, packet):
        return [201 for _, code in packet.triggers if code == 249]
"""


def test_a_decoder_is_checked_under_the_rules_of_a_contest(tmp_path, monkeypatch):
    (tmp_path / "old_codes.py").write_text(WAITS_FOR_249)
    (tmp_path / "contest.toml").write_text(
        'name = "old"\ntrack = "mi"\nrules = {profile = "2022"}\n'
    )
    monkeypatch.chdir(tmp_path)
    arguments = [
        "check",
        "--track",
        "mi",
        "--decoder",
        "old_codes:Old",
        "--contest",
        "contest.toml",
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "runs and reports: 2 reports" in done.output
