"""Options are checked when they are read, with clear errors."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.sources import open_source
from replay.tools.inspect import inspect_uri


@pytest.fixture
def path(tmp_path):
    np.savez(tmp_path / "z.npz", data=np.ones((2, 100)), rate=100, leads=np.array(["C3", "C4"]))
    return tmp_path / "z.npz"


@pytest.mark.parametrize("name", ["../../../oops", "a/b", "a\\b", ".x", "", " ", "a\nb", "a" * 101])
def test_a_subject_that_is_no_plain_name_is_refused(name, path):
    with pytest.raises(
        SourceError, match="subject names are used as file names: 1 to 100 characters"
    ):
        SourceOptions().with_params({"subject": name})


@pytest.mark.parametrize("name", ["S07", "my run 1", "sub-1_ses-2", "Zoë"])
def test_a_subject_may_be_called_as_files_are(name, path):
    (session,) = open_source(f"{path}?subject={name}").sessions()
    assert session.subject == name


@pytest.mark.parametrize("parameter", ["select", "leads"])
@pytest.mark.parametrize("given", ["", " , "])
def test_no_lead_at_all_is_not_every_lead(parameter, given, path):
    with pytest.raises(SourceError, match=f"{parameter}=.*name one or more"):
        open_source(f"{path}?{parameter}={given}")


def test_a_track_that_is_none_is_refused_by_those_that_only_look(path):
    with pytest.raises(SourceError, match="no track 'foo'"):
        inspect_uri(f"{path}?track=foo", SourceOptions())


def test_a_uri_may_be_longer_than_a_files_name(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    rules = ",".join(f"name{number}=11" for number in range(100))
    (session,) = open_source(f"z.npz?events={rules}").sessions()
    assert session.n_samples == 100
