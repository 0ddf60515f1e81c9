"""The head model against theory."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_legendre

from replay.synthetic.head import EYES_M, POSITIONS_M, fit_cap, position_of, potential
from tracks.common.leads import NEUSEN_64

UP = np.array([[0.0, 0.0, 1.0]])


@given(st.floats(0.05, 0.8), st.floats(0, np.pi))
def test_a_radial_dipole_gives_the_legendre_series(eccentricity: float, angle: float) -> None:
    n = np.arange(1, 400)
    series = np.sum((2 * n + 1) * eccentricity ** (n - 1) * eval_legendre(n, np.cos(angle)))
    point = np.array([[np.sin(angle), 0.0, np.cos(angle)]])
    got = potential(eccentricity * UP, UP, point)[0, 0]
    np.testing.assert_allclose(got, series, rtol=1e-6, atol=1e-6)


@given(st.floats(0.05, 0.8), st.floats(-3, 3), st.floats(-3, 3))
def test_potential_is_linear_in_the_moment(eccentricity: float, a: float, b: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(9, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    one, other = rng.normal(size=(2, 1, 3))
    place = eccentricity * UP
    both = potential(place, a * one + b * other, points)
    apart = a * potential(place, one, points) + b * potential(place, other, points)
    np.testing.assert_allclose(both, apart, atol=1e-8)


def test_a_source_is_seen_best_by_the_lead_above_it() -> None:
    head = fit_cap(NEUSEN_64, ("A1", "A2"), np.random.default_rng(0), askew_rad=0.0)
    for lead in ("C3", "C4", "Pz", "Oz", "F3"):
        row = head.area(lead, np.random.default_rng(0), spread=0.0)
        assert NEUSEN_64[int(np.argmax(row))] == lead


def test_the_reference_is_subtracted_and_a_lead_that_is_not_on_the_head_sees_nothing() -> None:
    leads = ("Pz", "A1", "A2", "ECG")
    head = fit_cap(leads, ("A1", "A2"), np.random.default_rng(0))
    row = head.area("Pz", np.random.default_rng(1))
    np.testing.assert_allclose(row[1] + row[2], 0, atol=1e-12)
    assert row[3] == 0


def test_a_blink_is_positive_above_the_eye_negative_below_and_fades_towards_the_back() -> None:
    head = fit_cap(NEUSEN_64, ("A1", "A2"), np.random.default_rng(0))
    row = dict(zip(NEUSEN_64, head.eyes((0.0, 0.35, 1.0), "Fp1"), strict=True))
    assert row["VEOU"] > row["Fp1"] > row["F3"] > row["C3"] > abs(row["O1"])
    assert row["VEOL"] < 0


def test_looking_right_is_positive_on_the_right_and_negative_on_the_left() -> None:
    head = fit_cap(NEUSEN_64, ("A1", "A2"), np.random.default_rng(0))
    row = dict(zip(NEUSEN_64, head.eyes((1.0, 0.0, 0.0), "HEOR"), strict=True))
    assert row["HEOR"] > row["F8"] > 0 > row["F7"] > row["HEOL"]


def test_every_lead_on_the_head_has_a_place_on_its_own_side() -> None:
    for name, (x, _, _) in POSITIONS_M.items():
        if name[-1].isdigit():
            assert (x < 0) == (int(name[-1]) % 2 == 1), name
    assert position_of("FZ") == position_of("Fz")
    assert position_of("T3") == position_of("T7")
    assert position_of("ECG") is None
    assert EYES_M[0][0] < 0 < EYES_M[1][0]
