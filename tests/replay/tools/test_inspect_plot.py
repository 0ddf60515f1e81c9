"""The picture of a recording shows what is in it, and nothing hides anything else."""

from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from replay.model.options import SourceOptions
from replay.sources import open_source
from replay.synthetic.head import position_of
from replay.tools.inspect_plot import RADIUS_M, STYLE, draw_session, on_round_head, plot_uri

pytestmark = pytest.mark.slow

CAP = ("Fpz", "Fp1", "F7", "T7", "C3", "Cz", "Pz", "PO7", "O1", "Oz", "O2", "T8", "F8")


@pytest.fixture
def drawn(tmp_path):
    """drawn(leads, events): the axes of its picture, by name, laid out as they are written."""

    def draw(leads=("C3", "Cz", "C4"), events=(), flat=(), n_samples=3000):
        data = np.random.default_rng(0).normal(0, 10, (len(leads), n_samples))
        data[list(flat)] = 7.0
        np.savez(
            tmp_path / "x.npz",
            data=data,
            rate=250,
            leads=np.array(leads),
            events=np.array(events, dtype=int).reshape(-1, 2),
        )
        (session,) = open_source(str(tmp_path / "x.npz")).sessions()
        with matplotlib.rc_context(STYLE):
            figure = draw_session(session)
        FigureCanvasAgg(figure).draw()
        return {axes.get_label(): axes for axes in figure.axes}

    return draw


def test_codes_are_between_the_panel_and_its_title_and_none_covers_another(drawn):
    events = [(250 + 7 * k, 100 + k) for k in range(200)]
    for leads in (("Cz",), ("C3", "Cz", "C4"), [f"L{k}" for k in range(24)]):
        axes = drawn(leads, events)["signals"]
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) > 10
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        top, title = axes.get_window_extent().y1, axes.title.get_window_extent().y0
        assert all(top <= box.y0 and box.y1 <= title for box in boxes)


def test_more_leads_than_are_drawn_are_reported(drawn):
    many = drawn([f"L{k}" for k in range(30)])
    assert many["signals"].get_title().startswith("signals (first 24 of 30 leads, ")
    assert "first" not in drawn()["signals"].get_title()


def test_flat_leads_are_left_out_of_the_spectra_and_counted(drawn):
    axes = drawn(("C3", "Cz", "C4", "Pz"), flat=(1,))["spectra"]
    assert axes.get_title() == "spectra (red: median, 1 flat lead not drawn)"
    assert len(axes.lines) == 3 + 1
    assert axes.get_ylim()[0] > -60
    assert (
        drawn(("C3", "Cz"), flat=(0, 1))["spectra"].get_title().endswith("2 flat leads not drawn)")
    )


def test_every_code_has_a_row_with_its_name_that_can_be_seen(drawn):
    codes = range(1, 41)
    axes = drawn(events=[(50 * k, code) for k, code in enumerate(codes)])["raster"]
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(code) for code in codes]
    labels = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in combinations(labels, 2))
    low, high = axes.get_ylim()
    assert low <= -0.5
    assert high >= len(codes) - 0.5
    assert axes.get_xlim()[0] < 0


def _radii(axes):
    return np.hypot(*np.asarray(axes.collections[0].get_offsets()).T) / RADIUS_M


def test_the_leads_of_a_cap_are_on_the_head_by_their_names(drawn):
    axes = drawn([f"{name}." for name in CAP])["montage"]
    assert axes.get_title() == "montage (standard positions: the file has none)"
    assert {text.get_text() for text in axes.texts if text.get_text()} == set(CAP)
    assert _radii(axes).max() < 1.03
    assert _radii(axes)[CAP.index("Cz")] < 0.02
    assert all(_radii(axes)[CAP.index(name)] > 0.85 for name in ("Fpz", "T7", "Oz", "T8"))


@pytest.mark.parametrize("moved", [(0, 0, 0), (0.002, -0.032, -0.046)])
def test_a_file_that_counts_from_another_point_has_its_leads_on_the_head_too(moved):
    places = {name: np.array(position_of(name)) + moved for name in CAP}
    found = on_round_head(places)
    assert all(np.linalg.norm(at) < 1.15 * RADIUS_M for at in found.values())
    assert found["Oz"][1] < -0.85 * RADIUS_M
    assert abs(found["Cz"][1]) < 0.05 * RADIUS_M


def test_leads_that_the_file_has_on_the_wrong_side_are_shown_there():
    mirrored = {name: np.array(position_of(name)) * (-1, 1, 1) for name in ("C3", "Cz", "C4", "Oz")}
    found = on_round_head(mirrored)
    assert found["C3"][0] > 0 > found["C4"][0]


def test_places_without_names_are_taken_as_in_the_file():
    grid = {f"E{k}": np.array([0.06, 0.01 * k, 0.07]) for k in range(4)}
    assert all(at[0] > 0.5 * RADIUS_M for at in on_round_head(grid).values())


def test_samples_that_are_no_number_do_not_hide_the_others(tmp_path):
    data = np.random.default_rng(0).normal(0, 10, (2, 999))
    data[0, ::100] = np.inf
    np.savez(tmp_path / "x.npz", data=data, rate=250, leads=np.array(["C3", "C4"]))
    uri = f"{tmp_path / 'x.npz'}?nan=keep"
    (session,) = open_source(uri).sessions()
    (axes,) = (each for each in draw_session(session).axes if each.get_label() == "spectra")
    assert axes.get_ylim()[1] < 100


def test_a_lead_may_have_any_name(tmp_path):
    names = np.array(["$x$", "a$b^", "C3"])
    np.savez(tmp_path / "$1$ {.npz", data=np.eye(3, 500), rate=250, leads=names)
    out = tmp_path / "out.png"
    assert plot_uri(str(tmp_path / "$1$ {.npz"), SourceOptions(), out) == [out]


def test_each_session_has_its_picture(tmp_path):
    made = plot_uri(
        "synthetic:erp?subjects=2&trials=1", SourceOptions(), tmp_path / "deep" / "x.png"
    )
    assert len(made) == 2
    assert sorted((tmp_path / "deep").iterdir()) == sorted(made)


@pytest.mark.parametrize("place", ["/dev/full", "/proc/none/x.png"])
def test_a_picture_that_can_not_be_written_names_its_place(place, write):
    with pytest.raises(OSError, match=place.rpartition("/")[0]):
        plot_uri(str(write("run.npz")), SourceOptions(), Path(place))
