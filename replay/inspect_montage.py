"""The picture of a montage: where a recording's leads are on the head, seen from above."""

from collections.abc import Mapping, Sequence
from functools import cache

import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray

from bci_stream.packet import Lead
from replay.lead_order import place

Place = NDArray[np.float64]
"""x, y, z in metres."""

HORIZON = ("Fpz", "Oz", "T7", "T8")
"""The leads that the outline of the head goes through, as the 10-20 system draws it."""
RADIUS_M = 0.095


def draw_montage(axes: Axes, leads: Sequence[Lead]) -> None:
    """The leads' places in the file, or where their names belong if it has none."""
    found = {lead.name: np.array(lead.position) for lead in leads if lead.position is not None}
    places = found or _by_name([lead.name for lead in leads])
    if not places:
        axes.text(0.5, 0.5, "no positions known", transform=axes.transAxes, ha="center")
        axes.set_axis_off()
        return
    shown = {name.strip(" ."): at for name, at in on_round_head(places).items()}
    info = mne.create_info(list(shown), 1.0, "eeg", verbose="error")
    montage = mne.channels.make_dig_montage(shown, coord_frame="head")
    info.set_montage(montage, verbose="error")
    mne.viz.plot_sensors(
        info,
        axes=axes,
        show_names=True,
        pointsize=9,
        linewidth=0,
        sphere=RADIUS_M,  # MNE would fit one, which fails where all leads are at the back
        show=False,
        verbose="error",
    )
    assert isinstance(axes.figure, Figure)
    above = offset_copy(axes.transData, axes.figure, y=2.5, units="points")
    for text in axes.texts:
        text.set(fontsize=5.5, ha="center", va="bottom", transform=above)
        text.set_text(text.get_text().strip())
    axes.set_title("montage" if found else "montage (standard positions: the file has none)")


def on_round_head(places: Mapping[str, Place]) -> dict[str, Place]:
    """The same places on a round head about the origin, level with Fpz, T7, Oz and T8.

    A head is longer than wide, and MNE's frame is tilted: drawn as they are, leads of the forehead
    would stand beside it. Where their names tell of places elsewhere the whole head is moved there,
    since many files count from another point than MNE does.
    """
    standard = _standard()
    front, back, left, right = (standard[place(name)] for name in HORIZON)
    centre = (left + right) / 2
    ahead, aside = (front - back) / 2, (right - left) / 2
    up = np.cross(aside, ahead)
    up *= np.dot(standard[place("Cz")] - centre, up) / np.dot(up, up)
    onto_axes = np.linalg.inv(np.column_stack([aside, ahead, up]))
    named = _by_name(list(places))
    moved = [places[name] - at for name, at in named.items()]
    centre += np.median(moved, axis=0) if moved else 0.0
    return {name: RADIUS_M * onto_axes @ (at - centre) for name, at in places.items()}


def _by_name(names: Sequence[str]) -> dict[str, Place]:
    """Standard 10-05 positions of the leads that have such names."""
    standard = _standard()
    return {name: standard[place(name)] for name in names if place(name) in standard}


@cache
def _standard() -> dict[str, Place]:
    """The 10-05 system in MNE's head frame: a montage is brought there when it is set."""
    known = mne.channels.get_builtin_montages()
    name = "colin27_1005" if "colin27_1005" in known else "standard_1005"
    montage = mne.channels.make_standard_montage(name)
    info = mne.create_info(montage.ch_names, 1.0, "eeg", verbose="error")
    info.set_montage(montage, verbose="error")
    return {place(channel["ch_name"]): channel["loc"][:3] for channel in info["chs"]}
