"""`foltr device` in a terminal: indexing, finding, what is stored, and what is refused."""

import json
import sqlite3
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.device.click_log import ClickLog
from foltr.device.home import Home


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    (folder / "plants").mkdir(parents=True)
    (folder / "plants" / "trees.md").write_text("# Pruning apple trees\n\nIn winter.\n")
    (folder / "pie.txt").write_text("Apple pie needs apples and a hot oven.\n")
    (folder / ".hidden.txt").write_text("apple in a hidden file\n")
    return folder


@pytest.fixture
def device(tmp_path):
    """Runs a command of one device; returns exit code and output."""

    def called(*words, asked=""):
        words = ["device", *map(str, words), "--home", str(tmp_path / "device")]
        done = CliRunner().invoke(app, words, input=asked)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    return called


def titles(device, *words):
    code, output = device("find", *words, "--json")
    assert code == 0, output
    results = json.loads(output)["results"]
    return ["".join(text for text, _ in each["title"]) for each in results]


def test_index_and_find(device, documents, tmp_path):
    code, output = device("index", documents)
    assert code == 0 and "2 documents" in output and "hidden 1" in output
    assert set(titles(device, "apple")) == {"Pruning apple trees", "pie.txt"}
    code, output = device("find", "apple", "trees")
    assert code == 0 and output.lstrip().startswith("1. Pruning apple trees")
    assert ((tmp_path / "device" / "index.db").stat().st_mode & 0o777) == 0o600


def test_a_search_for_nothing_says_what_may_help(device, documents):
    device("index", documents)
    assert "did you mean apple" in device("find", "aple")[1]
    assert "2 documents without the filters" in device("find", "apple", "folder:elsewhere")[1]
    assert "type:paper is no type" in device("find", "apple", "type:paper")[1]


def test_nothing_is_indexed_yet(device):
    for words in (("find", "apple"), ("status",), ("clear", "--yes")):
        code, output = device(*words)
        assert code == 2 and "nothing is indexed yet: foltr device index FOLDER" in output
    code, output = device("index")
    assert code == 2 and "say which folder to index" in output
    code, output = device("index", "/no/such/folder")
    assert code == 2 and "there is no file or folder /no/such/folder" in output


def test_a_folder_is_indexed_no_more(device, documents):
    device("index", documents)
    code, output = device("index", "--remove", "/elsewhere")
    assert code == 2 and f"Indexed folders: {documents}" in output
    code, output = device("index", "--remove", documents)
    assert code == 0 and "\n0 documents" in output


def test_everything_is_remembered(device, documents, tmp_path):
    """The page brings the index up to date as well: it must not remove what was asked for."""
    assert "3 documents" in device("index", documents, "--everything")[1]
    assert "3 documents" in device("index")[1]
    from foltr.device.running import Running

    running = Running(Home(tmp_path / "device"))
    assert running.update().removed == 0
    assert "2 documents" in device("index", "--no-everything")[1]
    assert running.update().removed == 0 and running.index.statistics().documents == 2


def test_a_start_is_chosen_before_the_first_search(device, documents, tmp_path):
    device("index", documents)
    device("find", "apple")
    assert "lists are those of plain word matching" in device("status")[1]
    code, output = device("index", "--start", "manual")
    assert code == 2 and "manuals" in output
    assert device("index", "--start", "manuals")[0] == 0
    assert "Nothing is learned from you yet" in device("status")[1]
    log = ClickLog(tmp_path / "device" / "index.db")
    with sqlite3.connect(tmp_path / "device" / "index.db") as db:
        db.execute(
            "insert into search (time, query, epoch, shown_by, documents, features, ranking,"
            " teams, clicks, learned) values (0, 'q', 0, 'bm25', x'', x'', x'', x'', x'', 1)"
        )
    assert log.counts()[0] == 1
    code, output = device("index", "--start", "bm25")
    assert code == 2 and "foltr device clear first" in output
    assert device("index", "--start", "manuals")[0] == 0  # as it is already


def test_clearing_asks_first(device, documents, tmp_path):
    device("index", documents)
    code, output = device("clear", asked="n\n")
    assert code == 2 and "nothing was deleted" in output
    code, output = device("clear", "--index", asked="y\n")
    assert code == 0 and "deleted" in output
    assert titles(device, "apple") == []


def test_an_index_of_a_newer_version_is_refused_and_unchanged(device, documents, tmp_path):
    device("index", documents)
    path = tmp_path / "device" / "index.db"
    with sqlite3.connect(path) as db:
        db.execute("update about set value = ? where name = 'format'", (b"99 1",))
    code, output = device("find", "apple")
    assert code == 2 and "format 99 1" in " ".join(output.split())
    with sqlite3.connect(path) as db:
        assert db.execute("select count(*) from document").fetchone() == (2,)


def test_two_processes_do_not_index_at_once(device, documents, tmp_path):
    device("index", documents)
    with Home(tmp_path / "device").alone("indexing"):
        code, output = device("index")
    assert code == 2 and "another process does this already" in " ".join(output.split())


def test_leaving_and_joining_need_a_federation(device, documents, closed_port):
    device("index", documents)
    code, output = device("leave")
    assert code == 2 and "has not joined a federation" in output
    code, output = device("join", f"https://127.0.0.1:{closed_port}", "--yes")
    assert code == 2 and "is the address right?" in " ".join(output.split())
    code, output = device("join", "nonsense", "--yes")
    assert code == 2 and "nonsense" in output


def test_export(device, documents, tmp_path):
    assert device("export", tmp_path / "mine.json")[0] == 2
    device("index", documents)
    assert device("export", tmp_path / "mine.json")[0] == 0
    assert json.loads((tmp_path / "mine.json").read_text()) == []


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%41b", "a b"])
def test_a_home_of_any_name(documents, tmp_path, name):
    home = tmp_path / name
    for _ in range(2):
        words = ["device", "index", str(documents), "--home", str(home)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0 and "2 documents" in done.output, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "documents"])


def test_the_next_command_is_for_the_same_home(device, documents, tmp_path):
    assert (
        f"next: foltr device search --home {tmp_path / 'device'}" in device("index", documents)[1]
    )


@pytest.mark.parametrize("damage", ["all of it", "the middle"])
def test_a_damaged_index_is_told_and_can_be_deleted(device, documents, tmp_path, damage):
    home = str(tmp_path / "device")  # in a process that ends, so that the file is whole
    words = [sys.executable, "-m", "foltr", "device", "index", str(documents), "--home", home]
    subprocess.run(words, check=True, capture_output=True)
    path = tmp_path / "device" / "index.db"
    content = bytearray(path.read_bytes())
    first = 0 if damage == "all of it" else 8192
    content[first:] = b"x" * (len(content) - first)
    path.write_bytes(content)
    code, output = device("index")
    assert code == 2 and "damaged" in output and "free some space" not in output
    code, output = device("clear", "--index", asked="n\n")
    assert code == 2 and "nothing was deleted" in output and path.exists()
    code, output = device("clear", "--index", "--yes")
    assert code == 0 and not path.exists()
    assert "2 documents" in device("index", documents)[1]


def test_the_files_of_the_device_are_not_indexed(device, documents, tmp_path):
    """The address of the page has its token."""
    home = tmp_path / "device"
    device("index", documents)
    (home / "page.json").write_text('{"address": "http://127.0.0.1:1/#tokenword"}')
    code, output = device("index", home)
    assert code == 0 and titles(device, "tokenword") == [] and "index " in output
    assert titles(device, "address") == []


def test_a_path_cannot_write_to_the_terminal(device, documents):
    (documents / "red\x1b[31m.txt").write_text("tomato")
    device("index", documents)
    output = device("find", "tomato")[1]
    assert "\x1b" not in output and "red?[31m.txt" in output


def test_an_interrupted_run_says_how_to_go_on(device, documents, monkeypatch):
    from foltr.device import indexing

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(indexing, "_read", interrupted)
    code, output = device("index", documents)
    assert code == 130 and "0 documents are indexed so far; foltr device index goes on" in output


def test_a_device_without_folders_keeps_its_documents(device, documents, tmp_path):
    from foltr.device.running import Running

    device("index", documents)
    home = Home(tmp_path / "device")
    home.index().set_roots([])
    running = Running(home)
    assert running.update().removed == 0 and running.index.statistics().documents == 2


def test_a_file_of_another_program_is_neither_used_nor_deleted(device, documents, tmp_path):
    home = tmp_path / "device"
    home.mkdir()
    with sqlite3.connect(home / "index.db") as db:
        db.execute("create table mine (x)")
    content = (home / "index.db").read_bytes()
    for words in (
        ("index", documents),
        ("index", "--start", "manuals"),
        ("clear", "--index", "--yes"),
    ):
        code, output = device(*words)
        assert code == 2 and "is no index of foltr" in " ".join(output.split())
    assert (home / "index.db").read_bytes() == content


def test_a_copy_of_a_damaged_index_is_kept(device, documents, tmp_path):
    home = tmp_path / "device"
    home.mkdir()
    (home / "index.db").write_bytes(b"x" * 9000)
    (home / "index.db.backup").write_bytes(b"mine")
    assert device("clear", "--index", "--yes")[0] == 0
    assert not (home / "index.db").exists() and (home / "index.db.backup").exists()
