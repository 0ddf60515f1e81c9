"""URIs: their parts, and schemes that another package brings."""

from importlib import metadata

import pytest
from playground import CounterSource

from bci_stream.errors import SourceError
from replay.sources import open_source, parse_uri


@pytest.mark.parametrize(
    ("uri", "scheme", "address", "params"),
    [
        ("run.edf?events=T1=11,T2=21", "", "run.edf", {"events": "T1=11,T2=21"}),
        ("Synthetic:erp?seed=7", "synthetic", "erp", {"seed": "7"}),
        ("neuracle://127.0.0.1:8712", "neuracle", "//127.0.0.1:8712", {}),
        (r"C:\data\run.edf", "", r"C:\data\run.edf", {}),
        ("lsl:a+b?markers=", "lsl", "a+b", {"markers": ""}),
    ],
)
def test_a_uri_is_split_into_its_parts(uri, scheme, address, params) -> None:
    parts = parse_uri(uri)
    assert (parts.scheme, parts.address, parts.params) == (scheme, address, params)


def open_counter(parts, options, transport) -> CounterSource:
    return CounterSource(parts.address, ())


def install(monkeypatch, value: str) -> None:
    point = metadata.EntryPoint("counter", value, "bci_stream.sources")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: metadata.EntryPoints([point]))


def test_another_package_brings_a_scheme_by_an_entry_point(monkeypatch) -> None:
    monkeypatch.setattr("playground.open_counter", open_counter, raising=False)
    install(monkeypatch, "playground:open_counter")
    assert open_source("counter:erp").track == "erp"


def test_an_entry_point_that_cannot_be_imported_is_named(monkeypatch) -> None:
    install(monkeypatch, "no_such_package:open")
    with pytest.raises(
        SourceError, match="entry point 'no_such_package:open', which can't be imported"
    ):
        open_source("counter:erp")


def test_an_unknown_scheme_lists_the_known_ones(monkeypatch) -> None:
    install(monkeypatch, "playground:open_counter")
    with pytest.raises(
        SourceError, match="synthetic, moabb, file, neuracle, lsl, brainflow, counter"
    ):
        open_source("nothing:erp")
