"""An inspection describes a recording, and which track's rules it follows or breaks."""

from io import StringIO

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from bci_stream.errors import SourceError
from replay.cli import main
from replay.model.options import SourceOptions
from replay.tools.inspect import inspect_source, inspect_uri
from replay.tools.inspect_view import render
from tracks.registry import TRACKS

MI_CODES = ((0, 242), (500, 11), (2500, 12), (3500, 13), (4500, 241), (6000, 243))


@pytest.fixture
def mi_file(tmp_path):
    """mi's format, with a flat lead, a lead with NaN, and without three of its leads."""
    leads = [name for name in TRACKS["mi"].leads if name not in ("Oz", "O1", "O2")]
    data = np.random.default_rng(0).normal(0, 10, (len(leads), 7000))
    data[leads.index("C3")] = 5.0
    data[leads.index("C4"), 10:13] = np.nan
    events = np.array(MI_CODES)
    path = tmp_path / "one.npz"
    np.savez(path, data=data, rate=1000, leads=np.array(leads), events=events, subject="S7")
    return str(path)


def shown(inspection) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(render(inspection))
    return console.file.getvalue()


def facts_of(uri, track=None):
    (facts,) = inspect_uri(uri, SourceOptions(), track).sessions
    return facts


def test_figures_are_those_of_the_recording(mi_file):
    facts = facts_of(mi_file)
    assert (facts.subject, facts.rate, facts.duration_s) == ("S7", 1000, 7.0)
    assert facts.block_samples == (7000,)
    assert facts.events == {11: 1, 12: 1, 13: 1, 241: 1, 242: 1, 243: 1}
    assert facts.flat == ("C3",)
    assert facts.bad == {"C4": 3}


def test_values_of_another_unit_have_a_range_of_their_own_and_no_hint(tmp_path):
    data = np.array([[-3.0, 4.0, 2.0], [0.0, 5e6, 7.0]])
    leads, kinds = np.array(["Cz", "grip"]), np.array(["EEG", "MISC"])
    np.savez(tmp_path / "x.npz", data=data, rate=250, leads=leads, kinds=kinds)
    inspection = inspect_uri(str(tmp_path / "x.npz"), SourceOptions(triggers="none"))
    assert inspection.sessions[0].ranges == {"microvolts": (-3.0, 4.0), "none": (0.0, 5e6)}
    text = shown(inspection)
    assert "-3 to 4 microvolts; 0 to 5e+06 of no unit" in text
    assert "is the unit right?" not in text


def test_the_track_that_it_fits_is_found_and_the_others_state_why_not(mi_file):
    fits = {fit.track: fit for fit in facts_of(mi_file + "?nan=keep").fits}
    assert set(fits) == set(TRACKS)
    assert [name for name, fit in fits.items() if fit.fits] == ["mi"]
    assert any("3 of its 64 leads are missing: Oz, O1, O2" in note for note in fits["mi"].adapted)
    assert all(fit.breaks for name, fit in fits.items() if name != "mi")
    assert any("resampled to 250 Hz" in note for note in fits["erp"].adapted)


def test_what_breaks_the_rules_of_the_asked_track_is_reported_with_its_place(mi_file):
    broken = "?events=12=0"
    (fit,) = facts_of(mi_file + broken, "mi").fits
    assert not fit.fits
    assert "s)" in fit.breaks[0]


def test_all_of_it_is_shown(mi_file):
    text = shown(inspect_uri(mi_file + "?nan=keep", SourceOptions()))
    for word in ("1000 Hz", "7.00 s", "C3", "C4 (3)", "242 x 1", "mi", "yes", "erp", "no"):
        assert word in text


def test_a_name_that_looks_like_markup_is_shown_as_it_is(tmp_path):
    np.savez(
        tmp_path / "x[red].npz", data=np.ones((1, 99)), rate=250, leads=np.array(["[bold]Cz[/]"])
    )
    text = shown(inspect_uri(str(tmp_path / "x[red].npz"), SourceOptions()))
    assert "[bold]Cz[/]" in text
    assert "x[red].npz" in text


def test_a_live_source_is_refused():
    class Live:
        uri, track, live = "lsl:x", None, True

    with pytest.raises(SourceError, match="live"):
        inspect_source(Live())


@pytest.mark.parametrize("name", ["run.edf", "run.npz"])
def test_the_picture_is_a_png_with_everything_in_it(name, write, tmp_path):
    from replay.tools.inspect_plot import plot_uri

    out = tmp_path / "out.png"
    assert plot_uri(str(write(name)), SourceOptions(), out) == [out]
    data = (tmp_path / "out.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert width >= 1000
    assert height >= 700


def test_a_recording_is_inspected_as_it_is_and_not_as_the_track_would_have_it(tmp_path):
    path = tmp_path / "quiet.npz"
    np.savez(path, data=np.ones((2, 512)), rate=256, leads=np.array(["Cz", "other"]))
    (facts,) = inspect_uri(str(path), SourceOptions(track="erp"), "erp").sessions
    assert (facts.rate, len(facts.leads)) == (256, 2)
    (fit,) = facts.fits
    assert "no label" in fit.breaks[0]
    assert any("63 of its 64 leads are missing" in note for note in fit.adapted)


def test_the_command_takes_the_same_changes_as_start(mi_file):
    changes = ["--events", "11=21", "--leads", "Cz,C3", "--resample", "500"]
    done = CliRunner().invoke(main, ["inspect", mi_file, *changes])
    assert done.exit_code == 0
    assert "500 Hz" in done.output
    assert "EEG: Cz C3" in done.output
    assert "21 x 1" in done.output
    assert "11 x 1" not in done.output
