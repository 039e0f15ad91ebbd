import hashlib
import multiprocessing
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from torchvision.datasets import utils

from fedtutor.datasets import cache
from fedtutor.errors import DataError, StorageError

CONTENT = bytes(range(256)) * 2000
MD5 = hashlib.md5(CONTENT).hexdigest()
SAY = {"where": "looked in two folders", "do": "get it by hand"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDTUTOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch):
    """Serves /good; /bad is always wrong, /later in the first download. `asked`: requests."""
    asked, fetched, real = [], [], utils.download_url

    def counted(url, *rest):
        fetched.append(url.rpartition("/")[2])
        return real(url, *rest)

    monkeypatch.setattr("torchvision.datasets.utils.download_url", counted)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(b"")

        def do_GET(self):
            asked.append(self.path)
            wrong = self.path == "/bad" or (self.path == "/later" and len(fetched) == 1)
            self.answer(CONTENT[:1000] if wrong else CONTENT)

        def answer(self, body):
            self.send_response(404 if self.path == "/none" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as own:
        threading.Thread(target=own.serve_forever, args=(0.02,), daemon=True).start()
        own.asked, own.fetched, own.at = asked, fetched, f"http://127.0.0.1:{own.server_address[1]}"
        yield own
        own.shutdown()


def left(folder) -> list[str]:
    """Everything in the cache but locks."""
    return sorted(p.name for p in folder.rglob("*") if not p.name.endswith(".lock"))


def test_a_download_is_made_once(server, folder):
    for _ in range(2):
        path = cache.fetch([f"{server.at}/good"], folder / "set.bin", MD5, **SAY)
        assert path.read_bytes() == CONTENT
    assert server.fetched == ["good"] and left(folder) == ["set.bin"]


def test_a_wrong_checksum_is_fetched_once_more(server, folder):
    path = cache.fetch([f"{server.at}/later"], folder / "set.bin", MD5, **SAY)
    assert path.read_bytes() == CONTENT and server.fetched == ["later"] * 2


def test_twice_a_wrong_checksum_is_reported_and_nothing_is_kept(server, folder):
    with pytest.raises(DataError, match=r"wrong checksum, twice\n.*looked in.*bad\n.*by hand"):
        cache.fetch([f"{server.at}/bad"], folder / "set.bin", MD5, **SAY)
    assert server.fetched == ["bad"] * 2 and left(folder) == []


def test_the_next_mirror_is_tried(server, folder):
    urls = [f"{server.at}/none", f"{server.at}/bad", f"{server.at}/good"]
    assert cache.fetch(urls, folder / "set.bin", MD5, **SAY).read_bytes() == CONTENT


def test_no_answer(server, folder):
    with pytest.raises(DataError, match=r"set.bin cannot be downloaded: no answer \(Not Found\)"):
        cache.fetch([f"{server.at}/none"], folder / "set.bin", MD5, **SAY)
    assert left(folder) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_download_leaves_nothing(folder, monkeypatch, error):
    def interrupted(url, root, name, md5):
        path = folder.parent / root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT[:100])
        raise error

    monkeypatch.setattr("torchvision.datasets.utils.download_url", interrupted)
    with pytest.raises(error):
        cache.fetch(["http://nowhere"], folder / "set.bin", MD5, **SAY)
    assert left(folder) == []


def test_what_a_killed_process_left_is_cleared(server, folder):
    half = folder / ".set.bin.half-abc"
    half.mkdir(parents=True)
    (half / "set.bin").write_bytes(CONTENT[:7])
    cache.fetch([f"{server.at}/good"], folder / "set.bin", MD5, **SAY)
    assert left(folder) == ["set.bin"]


def _fetch(url, target, barrier, results):
    barrier.wait()
    results.put(cache.fetch([url], target, MD5, **SAY).stat().st_size)


def test_two_processes_download_once(server, folder):
    cache.fetch([f"{server.at}/good"], folder / "alone.bin", MD5, **SAY)
    once = len(server.asked)  # torchvision asks for redirections first
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    pair = [context.Process(target=_fetch,
                            args=(f"{server.at}/good", folder / "set.bin", barrier, results))
            for _ in range(2)]  # fmt: skip
    for process in pair:
        process.start()
    for process in pair:
        process.join(30)
    assert [results.get(timeout=5) for _ in pair] == [len(CONTENT)] * 2
    assert len(server.asked) == 2 * once and left(folder) == ["alone.bin", "set.bin"]


def test_prepared_is_made_once_and_whole(folder):
    calls = []

    def fill(array):
        calls.append(1)
        array[:] = np.arange(6).reshape(3, 2)

    for _ in range(2):
        made = cache.prepared("six", (3, 2), fill)
        assert made.tolist() == [[0, 1], [2, 3], [4, 5]] and not made.flags.writeable
    assert calls == [1]

    def broken(array):
        array[0] = 1
        raise DataError("an image is damaged", where="here", do="replace it")

    with pytest.raises(DataError, match="an image is damaged"):
        cache.prepared("other", (3, 2), broken)
    assert left(folder) == ["prepared", "six.npy"]


def test_a_damaged_prepared_file(folder):
    cache.prepared("six", (3, 2), lambda array: None)
    (folder / "prepared" / "six.npy").write_bytes(b"short")
    with pytest.raises(DataError, match=r"six.npy is damaged.*\n.*\n.*delete the file"):
        cache.prepared("six", (3, 2), lambda array: None)
    with pytest.raises(DataError, match="damaged"):
        cache.prepared("six", (4, 2), lambda array: None)


def test_a_cache_that_cannot_be_written(folder, monkeypatch):
    folder.write_text("a file where the folder should be")
    with pytest.raises(StorageError, match=r"cannot write six.npy.*\n.*\n.*FEDTUTOR_CACHE"):
        cache.prepared("six", (3, 2), lambda array: None)


def test_the_cache_lies_in_the_project_by_default(monkeypatch):
    monkeypatch.delenv("FEDTUTOR_CACHE")
    assert cache.folder().parts[-2:] == ("data", "cache")
