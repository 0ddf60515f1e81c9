"""Data for teams: offered with checksums, resumable; test sets never leave the server."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from season.serving import make_contest, serving
from season.test_serve import ask

from bci_stream.errors import ContestError
from bci_stream.season.client import SeasonError
from bci_stream.season.downloads import offered_files
from bci_stream.season.units.jobs import file_sha256
from decoders.cli import main as decode_main

OFFER = 'downloads = ["data"]\nrecordings = ["data/organiser"]\n'


def prepared(cup: Path) -> Path:
    """A folder as `bci-replay prepare` makes it."""
    data = cup / "data"
    for folder, name in (
        ("train", "erp_train_S01.npz"),
        ("test", "erp_test_S02.npz"),
        ("organiser", "erp_test_S02.npz"),
        ("organiser", "erp_test_S02.truth.json"),
    ):
        (data / folder).mkdir(parents=True, exist_ok=True)
        (data / folder / name).write_bytes(f"{folder} {name} ".encode() * 20_000)
    manifest = {"track": "erp", "split": {}, "key": "", "files": {}}
    (data / "manifest.json").write_text(json.dumps(manifest))
    return data


def test_only_the_training_set_of_a_prepared_folder_is_offered(tmp_path: Path) -> None:
    train = prepared(tmp_path) / "train" / "erp_train_S01.npz"
    (file,) = offered_files(make_contest(tmp_path, OFFER))
    assert (file.track, file.name) == ("erp", "train/erp_train_S01.npz")
    assert file.sha256 == file_sha256(train)
    assert "path" not in file.view()


def test_a_prepared_folder_without_a_training_set_says_how_to_make_one(tmp_path: Path) -> None:
    (prepared(tmp_path) / "train" / "erp_train_S01.npz").unlink()
    with pytest.raises(ContestError, match="give it --train-blocks or --train-persons"):
        offered_files(make_contest(tmp_path, OFFER))


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        ("data/test", "never leaves the server"),
        ("data/organiser/erp_test_S02.truth.json", "never leaves the server"),
        ("played", "is played in the contest"),
        ("played/S03.edf", "is played in the contest"),
        ("copy.edf", "is played in the contest"),
        ("linked", "never leaves the server"),
        ("hashed.edf", "is played in the contest"),
        ("absent", "no such file or folder"),
    ],
)
def test_what_is_secret_is_refused_at_the_start(tmp_path: Path, offer: str, words: str) -> None:
    data = prepared(tmp_path)
    (tmp_path / "played").mkdir()
    (tmp_path / "played" / "S03.edf").write_bytes(b"signal")
    (tmp_path / "copy.edf").write_bytes(b"signal")
    (tmp_path / "hashed.edf").write_bytes(b"other")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "innocent.npz").symlink_to(data / "test" / "erp_test_S02.npz")
    url = f"https://x.org/a.edf#sha256={file_sha256(tmp_path / 'hashed.edf')}"
    phases = f'[[phases]]\nname = "final"\n[phases.tracks.erp]\nrecordings = ["played", "{url}"]\n'
    contest = make_contest(tmp_path, f'downloads = ["{offer}"]\n{phases}')
    with pytest.raises(ContestError, match=words):
        offered_files(contest)


def test_a_team_downloads_resumes_and_verifies(tmp_path: Path) -> None:
    train = prepared(tmp_path / "cup") / "train" / "erp_train_S01.npz"
    with serving(make_contest(tmp_path / "cup", OFFER)) as served:
        words = ["download", "--server", served.url, "--team-file", str(served.team_file("alice"))]
        listed = CliRunner().invoke(decode_main, [*words, "--list"])
        assert f"{file_sha256(train)}" in listed.output
        out = tmp_path / "mine"
        target = out / "erp" / "train" / train.name
        target.parent.mkdir(parents=True)
        part = target.with_name(f"{train.name}.part")
        part.write_bytes(train.read_bytes()[:5000])
        got: list[int] = []
        client = served.client("alice")
        (file,) = client.data()
        assert client.fetch(file, target, lambda have, _size: got.append(have))
        assert min(got) > 5000, "it went on at the end of the part"
        assert target.read_bytes() == train.read_bytes()
        again = CliRunner().invoke(decode_main, [*words, "--out", str(out)])
        assert "was there already" in again.output
        target.unlink()
        part.write_bytes(b"x" * 5000)
        with pytest.raises(SeasonError, match="another SHA-256"):
            client.fetch(file, target, lambda *_: None)
        assert not part.exists()
        assert client.fetch(file, target, lambda *_: None)
        path = f"/api/v1/data/{file['sha256']}"
        assert ask(served, "GET", path)[0] == 401, "registered teams only"
        secret = tmp_path / "cup" / "data" / "test" / "erp_test_S02.npz"
        with pytest.raises(SeasonError, match="no file with the SHA-256"):
            client.fetch({**file, "sha256": file_sha256(secret)}, out / "x", lambda *_: None)
