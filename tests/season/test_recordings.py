"""Recordings by content hash: fetched, verified, private, bounded."""

import hashlib
import http.server
import json
import os
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from season.serving import make_contest

from bci_stream.contest.contest import TrackPlan, load_contest
from bci_stream.errors import ContestError
from bci_stream.season.units import recordings as module
from bci_stream.season.units.jobs import UnitJob, read_outcome, write_job
from bci_stream.season.units.recordings import cache_bound, recordings_here
from bci_stream.season.units.unit import run_unit

pytest.importorskip("fsspec", reason="fsspec is not installed (extra `remote`)")


def hashed(path: Path, url: str = "") -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{url or f'file://{path}'}#sha256={digest}"


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Not shown."""

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=folder)
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_recording_is_fetched_once_from_http_and_is_private(tmp_path: Path) -> None:
    source = written(tmp_path / "S 01.edf", b"signal" * 1000)
    cache = tmp_path / "cache"
    with web_server(tmp_path) as url:
        text = hashed(source, f"{url}/S%2001.edf") + "?events=T1=11"
        with recordings_here([text, "synthetic:erp"], cache) as (path, other):
            name, _, options = path.partition("?")
            assert (Path(name).name, options, other) == (
                "S_01.edf",
                "events=T1=11",
                "synthetic:erp",
            )
            assert Path(name).read_bytes() == source.read_bytes()
        private = [each.stat().st_mode & 0o077 for each in (cache, *cache.rglob("*"))]
        assert private == [0] * len(private)
    with recordings_here([text], cache) as again:
        assert again == [path], "the server is away: it is in the cache"
    Path(name).write_bytes(b"changed")
    with (
        pytest.raises(ContestError, match=r"SHA-256 \w{12}\.\.\. can't be fetched") as refused,
        recordings_here([text], cache),
    ):
        pass
    assert "127.0.0.1" not in str(refused.value), "teams see the reason"


def test_a_recording_is_fetched_once_from_s3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = "pip install s3fs 'moto[server]'"
    s3fs = pytest.importorskip("s3fs", reason=f"s3fs is not installed: {needed}")
    moto = pytest.importorskip("moto.server", reason=f"moto is not installed: {needed}")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        bucket = s3fs.S3FileSystem(skip_instance_cache=True)
        bucket.mkdir("cup")
        bucket.pipe("cup/S01.edf", b"signal" * 1000)
        source = written(tmp_path / "S01.edf", b"signal" * 1000)
        text, cache = hashed(source, "s3://cup/S01.edf"), tmp_path / "cache"
        with recordings_here([text], cache) as (path,):
            assert Path(path).read_bytes() == source.read_bytes()
        for wrong, words in {
            text.replace("S01", "S02"): "can't be fetched: FileNotFoundError",
            f"{text[:-64]}{'0' * 64}": "another hash",
        }.items():
            with (
                pytest.raises(ContestError, match=words) as refused,
                recordings_here([wrong], tmp_path / "other"),
            ):
                pass
            assert "cup/" not in str(refused.value), "teams see the reason"
    finally:
        server.stop()
    with recordings_here([text], cache) as again:
        assert again == [path], "the bucket is away: it is in the cache"


def test_what_has_another_hash_is_not_used(tmp_path: Path) -> None:
    source = written(tmp_path / "a.npz", b"one")
    text = hashed(source)
    source.write_bytes(b"two")
    with pytest.raises(ContestError, match="another hash"), recordings_here([text], tmp_path / "c"):
        pass
    assert [path.suffix for path in (tmp_path / "c").iterdir()] == [".lock"]


def test_an_archive_is_unpacked_and_played_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "S01").mkdir()
    written(tmp_path / "S01" / "run.vhdr", b"header")
    with tarfile.open(tmp_path / "S01.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "S01", "S01")
    text = hashed(tmp_path / "S01.tar.gz")
    for _ in range(2):
        with recordings_here([text], tmp_path / "cache") as (folder,):
            assert (Path(folder) / "S01" / "run.vhdr").read_bytes() == b"header"
            (Path(folder) / "S01" / "run.vhdr").write_bytes(b"changed: fetched again")
    broken = hashed(written(tmp_path / "b.zip", b"PK no zip"))
    with pytest.raises(ContestError, match="unpacked"), recordings_here([broken], tmp_path / "c"):
        pass


def test_the_cache_is_bounded_and_what_is_used_stays(tmp_path: Path) -> None:
    texts = [hashed(written(tmp_path / f"{n}.npz", bytes([n]) * 1000)) for n in range(3)]
    cache = tmp_path / "cache"
    kept = lambda: {path.parent.name[:6] for path in cache.glob("*/manifest.json")}  # noqa: E731
    short = [text.partition("sha256=")[2][:6] for text in texts]
    with recordings_here([texts[0]], cache, 2500):
        with recordings_here([texts[1]], cache, 2500):
            pass
        os.utime(next(cache.glob(f"{short[0]}*/manifest.json")), (0, 0))
        with recordings_here([texts[2]], cache, 2500):
            assert kept() == {short[0], short[2]}, "the oldest is in use"
    with (
        pytest.raises(ContestError, match=r"has 1000 bytes or more; the cache takes 999.*_GB"),
        recordings_here([texts[1]], cache, 999),
    ):
        pass


def test_wrong_settings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContestError, match=r"a URL needs the hash.*sha256sum"):
        make_contest(tmp_path, 'recordings = ["https://x.org/a.edf"]\n')
    monkeypatch.setenv(module.BOUND_VARIABLE, "-1")
    with pytest.raises(ContestError, match="gigabytes above 0"):
        cache_bound()
    text = hashed(written(tmp_path / "a.npz", b"one"))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with (
        pytest.raises(ContestError, match=r"bci-stream\[remote\]"),
        recordings_here([text], tmp_path / "c", 10),
    ):
        pass


def test_a_unit_whose_recording_is_away_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BCI_HOME", "replaced by the unit")
    contest = make_contest(tmp_path / "cup")
    text = hashed(written(tmp_path / "a.npz", b"one"))
    (tmp_path / "a.npz").unlink()
    job = UnitJob(1, 1, 1, "alice", "erp", [text])
    write_job(tmp_path / "unit", contest, TrackPlan(), job, written(tmp_path / "x", b"PK"))
    assert load_contest(tmp_path / "unit").tracks["erp"].recordings == [text]
    run_unit(tmp_path / "unit", threading.Event())
    outcome = read_outcome(tmp_path / "unit")
    assert (outcome.ending, outcome.log) == ("stopped", "")
    assert "can't be fetched: FileNotFoundError" in outcome.detail
    assert json.dumps(str(tmp_path)) not in outcome.detail
