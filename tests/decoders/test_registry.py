"""Decoders are found by name or module:Class, and every other name gets a clear answer."""

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest

from decoders.decoder import DecoderError, HasNotice
from decoders.model import Model, ModelError, save_model
from decoders.registry import (
    DECODERS,
    GROUP,
    DecoderEntry,
    default_of,
    entries,
    find_class,
    find_trainer,
    load,
    names,
)
from tracks.registry import TRACKS

NEED_A_MODEL = {"erp-xdawn", "mi-csp", "mi-mdm", "mi-svm", "mi-ts"} | {
    name for name in DECODERS if name.endswith("-pipeline")
}


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_every_name_leads_to_a_decoder(name: str) -> None:
    found = find_class(name, DECODERS[name].track)
    assert callable(found.start)
    assert callable(found.step)
    assert DECODERS[name].track in TRACKS


@pytest.mark.parametrize("name", sorted(set(DECODERS) - NEED_A_MODEL))
def test_most_need_no_model(name: str) -> None:
    load(name, DECODERS[name].track, seed=3)


@pytest.mark.parametrize("track", ["mi", "emotion", "ecog"])
def test_a_decoder_without_its_model_shows_that_it_is_a_fallback(track: str) -> None:
    decoder = load(None, track)
    assert isinstance(decoder, HasNotice)
    assert f"bci-decode train --track {track}" in decoder.notice
    assert not isinstance(load(f"{track}-chance", track), HasNotice)


@pytest.mark.parametrize("track", sorted(TRACKS))
def test_every_track_has_a_default_and_a_chance_decoder(track: str) -> None:
    assert default_of(track) == names(track)[0]
    assert f"{track}-chance" in names(track)


def test_a_contestants_own_class_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_for_test.py").write_text(
        "class Mine:\n"
        "    def start(self, info): self.seen = 0\n"
        "    def step(self, packet): return []\n"
        "class Half:\n"
        "    def start(self, info): pass\n"
        "class Greedy(Mine):\n"
        "    def __init__(self, more): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    assert type(load("mine_for_test:Mine", "mi")).__name__ == "Mine"
    with pytest.raises(DecoderError, match=r"no method step\(\)"):
        load("mine_for_test:Half", "mi")
    with pytest.raises(DecoderError, match="can't be made"):
        load("mine_for_test:Greedy", "mi")
    with pytest.raises(DecoderError, match="has no class 'None'"):
        load("mine_for_test:None", "mi")
    with pytest.raises(DecoderError, match="takes no model"):
        load("mine_for_test:Mine", "mi", tmp_path / "x.model")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", r"can't be imported: SyntaxError: .*line 1"),
        ("\n1 / 0", r"can't be imported: ZeroDivisionError: .*\(faulty_for_test.py, line 2\)"),
        (
            "class X:\n    def __init__(self): self.a[0]",
            r"can't be made: AttributeError: .*\(faulty_for_test.py, line 2\)",
        ),
    ],
)
def test_what_a_contestants_module_raises_is_reported_in_one_line_with_its_place(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty_for_test.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty_for_test", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(DecoderError, match=message):
        load("faulty_for_test:X", "mi")
    sys.modules.pop("faulty_for_test", None)


@pytest.mark.parametrize(
    ("name", "track", "message"),
    [
        ("mi-riemann", "erp", "is for track mi, not erp"),
        ("unknown", "mi", "one of: mi-riemann"),
        ("no_such_module:X", "mi", "can't be imported"),
        (None, "chess", "track 'chess'"),
    ],
)
def test_a_wrong_name_gets_a_clear_error(name: str | None, track: str, message: str) -> None:
    with pytest.raises(DecoderError, match=message):
        load(name, track)


def installed(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Entry points as if packages had been installed."""
    points = metadata.EntryPoints(
        metadata.EntryPoint(name, value, GROUP) for name, value in values.items()
    )
    monkeypatch.setattr(metadata, "entry_points", lambda **chosen: points.select(**chosen))


ENTRY = DecoderEntry("mi", "decoders.chance:MiChance", "of another package")


def test_another_package_adds_a_decoder_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, theirs=f"{__name__}:ENTRY")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert names("mi")[-1] == "theirs"
    assert type(load("theirs", "mi")).__name__ == "MiChance"
    with pytest.raises(DecoderError, match="is for track mi, not erp"):
        load("theirs", "erp")
    with pytest.raises(DecoderError, match="theirs can't be trained"):
        find_trainer("theirs")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:ENTRY", "ModuleNotFoundError"),
        ("math:pi", "must be a DecoderEntry; got 3.14"),
    ],
)
def test_a_broken_entry_point_is_named_and_harms_no_other_decoder(
    value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, theirs=value)
    assert set(entries()) == set(DECODERS)
    load("mi-chance", "mi")
    with pytest.raises(DecoderError, match=f"decoder theirs, from the entry point.*{message}"):
        load("theirs", "mi")


def test_a_model_of_another_decoder_is_refused(tmp_path: Path) -> None:
    save_model(Model("mi", "mi-csp", {}), tmp_path / "csp.model")
    with pytest.raises(ModelError, match="is for the decoder 'mi-csp'"):
        load("mi-riemann", "mi", tmp_path / "csp.model")
