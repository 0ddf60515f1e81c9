"""The benchmark takes what stands in the folder, names what it skips, and claims no more than it saw."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scripts.bench import decoders as bench
from scripts.bench import results, table
from scripts.bench.recordings import erp as bench_erp
from scripts.bench.recordings import files as bench_files
from scripts.bench.recordings import spellers as bench_spellers
from scripts.bench.recordings.augmented import LaggedMoments

pytestmark = pytest.mark.slow

ROWS_AND_COLUMNS = (
    *("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_"),
    *("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_"),
)


def row(method: str, units: list[float], ours: bool = False) -> table.Row:
    return table.row_of(
        units,
        table.mean,
        "people",
        track="erp",
        data="D",
        method=method,
        ours=ours,
        measure="M",
    )


def test_ahead_is_reported_only_where_the_paired_interval_leaves_out_0() -> None:
    hard = np.random.default_rng(0).normal(0, 10, 30)  # what makes a person hard is shared
    rows = [
        row("better", (hard + 1).tolist(), ours=True),
        row("worse", (hard - 1).tolist(), ours=True),
        row("same", (hard + np.tile([0.5, -0.5], 15)).tolist(), ours=True),
        row("reference", hard.tolist()),
    ]
    found = list(table.verdicts(rows))
    assert [verdict.word for verdict in found] == ["ahead of", "BEHIND", "level with"]
    assert found[0].difference == pytest.approx(1)
    assert "over 30 pairs" in str(found[0])
    assert rows[0].low < rows[3].high  # their own intervals overlap: only pairs tell them apart


def test_the_results_page_replaces_the_section_of_its_track_only(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    rows = [row("ours", [1.0, 2.0, 3.0], ours=True), row("reference", [0.0, 1.0, 2.0])]
    found = list(table.verdicts(rows))
    for track, day in (("erp", "2020-01-01"), ("mi", "2020-01-02"), ("erp", "2020-01-03")):
        results.update_page(page, track, rows, found, day)
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["mi", "erp"]
    assert "2020-01-01" not in text
    assert "| D | **ours** | 2.000 |" in text
    assert "| D | ours | reference | +1.000 | +1.000 to +1.000 | 3 pairs | ahead |" in text


def test_the_page_compares_means_over_the_recordings_that_both_have(tmp_path: Path) -> None:
    rows = [
        replace(row(method, [score], ours=method == "ours"), data=data)
        for method, scores in (("ours", (3.0, 4.0, 5.0, 9.0)), ("reference", (2.0, 3.0, 4.0)))
        for data, score in zip("abcd", scores, strict=False)
    ]
    rows += table.over_all(rows)
    results.update_page(tmp_path / "p.md", "erp", rows, list(table.verdicts(rows)), "2020-01-01")
    text = (tmp_path / "p.md").read_text(encoding="utf-8")
    top, folded = text.split("<details>")
    assert "| **ours** | 5.250 |" in top
    assert "| ours | reference | +1.000 | +1.000 to +1.000 | 3 recordings | ahead |" in top
    assert "| a | " not in top
    assert "| a | **ours** | 3.000 |" in folded


def test_a_reference_is_compared_with_what_it_stands_beside() -> None:
    rows = [row("ours, more", [1.0] * 3, ours=True), row("ours, less", [1.0] * 3, ours=True)]
    rows.append(replace(row("reference", [0.0] * 3), beside="ours, less"))
    assert [verdict.ours for verdict in table.verdicts(rows)] == ["ours, less"]


def test_the_page_of_an_earlier_run_is_written_from_its_rows(tmp_path: Path) -> None:
    rows = [row("ours", [1.0, 2.0, 3.0], ours=True), row("reference", [0.0, 1.0, 2.0])]
    found = list(table.verdicts(rows))
    written, pages = tmp_path / "rows.json", [tmp_path / "run.md", tmp_path / "rows.md"]
    results.update_page(pages[0], "erp", rows, found, "2020-01-01")
    bench.write_rows(written, rows, "2020-01-01")
    again = CliRunner().invoke(bench.main, ["--rows", str(written), "--page", str(pages[1])])
    assert again.exit_code == 0, again.output
    assert pages[0].read_text(encoding="utf-8") == pages[1].read_text(encoding="utf-8")
    written.write_text("{}")
    refused = CliRunner().invoke(bench.main, ["--rows", str(written), "--page", str(pages[1])])
    assert refused.exit_code == 1
    assert "write them with --json" in refused.output


def test_the_page_shows_the_compute_time_of_a_packet(tmp_path: Path) -> None:
    timed = replace(row("ours", [1.0, 2.0, 3.0], ours=True), mean_ms=0.5, worst_ms=12.0)
    results.update_page(tmp_path / "p.md", "erp", [timed], [], "2020-01-01")
    assert "| 3 | 0.50 / 12.0 |" in (tmp_path / "p.md").read_text(encoding="utf-8")


def test_with_two_units_nothing_is_claimed() -> None:
    rows = [row("ours", [1.0, 1.0], ours=True), row("reference", [0.0, 0.0])]
    (verdict,) = table.verdicts(rows)
    assert verdict.word == "too little to be compared with"
    assert "no interval, 2 pairs" in str(verdict)


def test_a_draw_without_a_score_is_left_out() -> None:
    low, high = table.bootstrap([1.0, float("nan")], lambda units: float(np.mean(units)))
    assert (low, high) == (1.0, 1.0)


def write(path: Path, recording, groups: tuple[str, ...] | None) -> None:
    block = recording.blocks[0]
    codes = np.zeros(block.n_samples)
    for place, code in block.triggers:
        codes[place] = code
    data = np.vstack([block.read(0, block.n_samples).T, codes])
    names = np.array([*(lead.name for lead in recording.leads), "TRIGGER"])
    extra = {} if groups is None else {"groups": np.array(groups)}
    np.savez(path, data=data, rate=recording.rate, ch_names=names, **extra)


def test_it_finds_spellers_of_any_name_and_skips_what_is_none(
    tmp_path: Path, erp_session, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "p300"
    folder.mkdir()
    session = erp_session(text="T3O", groups=ROWS_AND_COLUMNS, seed=4)
    write(folder / "anybody.npz", session, ROWS_AND_COLUMNS)
    write(folder / "unlabelled.npz", session, None)
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04 not really")
    np.savez(folder / "other.npz", x=np.zeros(3))
    found = list(bench_files.read_each(sorted(folder.glob("*.npz")), bench_spellers.read_speller))
    err = capsys.readouterr().err
    assert [speller.name for speller in found] == ["anybody"]
    assert "skipped p300/damaged.npz" in err
    assert "skipped p300/other.npz: it has no ch_names, data, rate" in err
    assert "skipped p300/unlabelled.npz: " in err


def test_every_method_spells_the_letters_of_a_person_left_out(erp_session) -> None:
    people = [
        bench_spellers.Speller(
            f"p{seed}", erp_session(text="T3", groups=ROWS_AND_COLUMNS, seed=seed), ROWS_AND_COLUMNS
        )
        for seed in (4, 5)
    ]
    assert bench_erp.alike(*people)
    assert not bench_erp.alike(people[0], people[0])
    unaided = {person.name: bench_erp.watch(person, None) for person in people}
    rows = bench_erp.person_rows(people[0], people[1:], unaided)
    assert {r.data for r in rows} == {"p4"}
    own = {"erp-bayes, no label", "erp-bayes, prior of others"}
    assert {r.method for r in rows if r.ours} == own
    assert {"erp-umm, no label", "shrinkage LDA, prior of others"} <= {r.method for r in rows}
    measures = {r.measure for r in rows if r.method in own}
    assert measures == {
        "bits/min (track score)",
        "AUC of flashes",
        "nats gained over chance (3.58)",
    }
    flashes = [r for r in rows if r.measure == "AUC of flashes"]
    assert {len(r.units) for r in flashes} == {120}
    assert min(r.score for r in flashes if "prior" in r.method) > 0.7


def test_flashes_without_groups_are_given_groups_that_agree_with_their_labels() -> None:
    codes = np.ones(96, dtype=int)
    codes[3::12] = codes[7::12] = 2
    places = 100 + 30 * np.arange(96) + 1000 * (np.arange(96) >= 48)
    triggers = list(zip(places.tolist(), codes.tolist(), strict=True))
    coded = bench_spellers.with_groups(triggers, rate=125.0)
    assert [code for _, code in coded].count(241) == 2
    labels = dict(triggers)
    character = ""
    for place, code in coded:
        if 101 <= code <= 136:
            character = bench_spellers.CHARACTERS[code - 101]
        elif code <= 12:
            assert (character in ROWS_AND_COLUMNS[code - 1]) == (labels[place] == 2)
    with pytest.raises(bench_files.NotThisLayoutError, match="exactly two targets"):
        bench_spellers.with_groups([(place, 1) for place, _ in triggers], rate=125.0)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    assert bench_erp.auc([(True, 2.0), (False, 1.0), (False, 3.0), (True, 4.0)]) == 0.75
    assert np.isnan(bench_erp.auc([(True, 2.0)]))


def test_augmented_covariances_are_positive_where_a_window_ends_quieter_than_it_began() -> None:
    rng = np.random.default_rng(0)
    loud = np.exp(-np.arange(250) / 8)[:, None] * rng.standard_normal((250, 2))
    moments = LaggedMoments(125.0, [0, 1], ((8.0, 30.0),))
    for window in np.split(loud, 25):
        moments.forget()
        moments.add(window)
        powers = np.linalg.eigvalsh(moments.sums[0])
        assert powers.min() > -1e-9 * powers.max()
