"""Which files below a folder are indexed, and why others are not."""

import builtins
import os
import socket
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.device import walking as walking_module
from foltr.device.walking import Found, find, walk


def tree_in(folder: Path, *names: str) -> None:
    """Files with a little text; a name that ends with a slash is a folder."""
    for name in names:
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text")


def patterns_in(folder: Path, *lines: str, name: str = ".gitignore") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines))


def walked(folder: Path, everything: bool = False) -> tuple[list[str], Counter[str]]:
    """The names that are given, and the reasons of the others; `find` must agree."""
    left_out: Counter[str] = Counter()
    found = list(walk([folder], everything, left_out))
    given = {one.path for one in found}
    for path in folder.rglob("*"):
        one = find(path, [folder], everything)
        assert (one is not None) == (path in given), path
        assert one is None or one in found
    return [one.path.relative_to(folder).as_posix() for one in found], left_out


def test_files_are_given_in_a_stable_order_with_what_identifies_them(tmp_path):
    tree_in(tmp_path, "b.txt", "a/z.txt", "a/b/c.md", "c/a.py", "a.txt")
    assert walked(tmp_path) == (["a.txt", "b.txt", "a/z.txt", "a/b/c.md", "c/a.py"], Counter())
    first = next(walk([tmp_path]))
    status = (tmp_path / "a.txt").stat()
    assert first == Found(tmp_path / "a.txt", 4, status.st_mtime_ns)


def test_hidden_files_and_folders_are_left_out_unless_everything_is_asked_for(tmp_path):
    tree_in(tmp_path, ".hidden.txt", ".config/a.txt", "a.txt")
    assert walked(tmp_path) == (["a.txt"], Counter(hidden=2))
    assert walked(tmp_path, everything=True) == (
        [".hidden.txt", "a.txt", ".config/a.txt"],
        Counter(),
    )


@pytest.mark.parametrize(
    "folder", ["node_modules", "__pycache__", ".git", ".venv", "site-packages", "CVS"]
)
def test_folders_that_programs_make_are_left_out(tmp_path, folder):
    tree_in(tmp_path, f"{folder}/a.txt", "a.txt")
    names, left_out = walked(tmp_path)
    assert names == ["a.txt"] and left_out.total() == 1
    assert walked(tmp_path, everything=True) == (["a.txt"], Counter(generated=1))


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "CACHEDIR.TAG"])
def test_a_python_environment_or_a_cache_is_known_by_a_file_in_it(tmp_path, mark):
    tree_in(tmp_path, f"env/{mark}", "env/lib/a.py", "a.txt")
    assert walked(tmp_path) == (["a.txt"], Counter(generated=1))
    assert "lib/a.py" in walked(tmp_path / "env")[0]  # its user has named it


def test_the_trash_is_left_out(tmp_path):
    tree_in(tmp_path, "Trash/a.txt", "lost+found/a.txt", "a.txt")
    assert walked(tmp_path) == (["a.txt"], Counter(trash=2))


@pytest.mark.parametrize(
    "name",
    "id_rsa id_ed25519 id_ecdsa_sk id_rsa.old server.pem my.KEY a.p12 a.pfx a.kdbx a.gpg a.jks"
    " a.ovpn wallet.dat credentials credentials.json Credentials.CSV secrets.yaml passwords.txt"
    " prod.env ssh_host_rsa_key client_secret_1.json kubeconfig terraform.tfstate a.ppk".split(),
)
def test_files_of_keys_are_never_given(tmp_path, name):
    tree_in(tmp_path, name, "a.txt")
    for everything in (False, True):
        assert walked(tmp_path, everything) == (["a.txt"], Counter(key=1))
        assert list(walk([tmp_path / name], everything)) == []


@pytest.mark.parametrize("name", [".env", ".env.local", ".netrc", ".pgpass", ".git-credentials"])
def test_hidden_files_of_keys_are_never_given(tmp_path, name):
    tree_in(tmp_path, name)
    assert walked(tmp_path, everything=True) == ([], Counter(key=1))


@pytest.mark.parametrize("folder", [".ssh", ".gnupg", ".aws", ".password-store", "keyrings"])
def test_folders_of_keys_are_never_entered(tmp_path, folder):
    tree_in(tmp_path, f"{folder}/config.txt", f"{folder}/deep/a.txt")
    assert walked(tmp_path, everything=True) == ([], Counter(key=1))
    for root in (tmp_path / folder, tmp_path / folder / "deep", tmp_path / folder / "deep/a.txt"):
        assert list(walk([root], everything=True)) == []
        assert find(root, [root], everything=True) is None


@pytest.mark.parametrize(
    "name", ["passwords.html", "credentials.md", "secrets.py", "keys.txt", "monkey", "environment"]
)
def test_pages_and_programs_about_secrets_are_given(tmp_path, name):
    tree_in(tmp_path, name)
    assert walked(tmp_path) == ([name], Counter())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.png", "binary"),
        ("a.JPG", "binary"),
        ("a.tar.gz", "binary"),
        ("lib.so", "binary"),
        ("a.sqlite3", "binary"),
        ("a.docx", "no reader"),
        ("a.epub", "no reader"),
        ("a.txt~", "backup"),
        (".a.txt.swp", "hidden"),
        ("a.swp", "backup"),
        ("~$a.doc.txt", "backup"),
        ("poetry.lock", "generated"),
        ("package-lock.json", "generated"),
        ("a.min.js", "generated"),
    ],
)
def test_files_of_no_use_are_left_out_by_name(tmp_path, name, reason):
    tree_in(tmp_path, name)
    assert walked(tmp_path) == ([], Counter({reason: 1}))


def test_gitignore_holds_below_its_folder_and_inner_ones_decide(tmp_path):
    tree_in(
        *(
            tmp_path,
            "a.log",
            "keep.log",
            "build/x.txt",
            "src/build/y.txt",
            "src/a.log",
            "src/b.gen",
        ),
        *("other/b.gen", "docs/out/a.txt", "docs/a.txt", "top.txt", "src/top.txt"),
    )
    patterns_in(tmp_path, "# comment", "", "*.log", "!keep.log", "build/", "/top.txt", "docs/out")
    patterns_in(tmp_path / "src", "*.gen", "!a.log")
    names, left_out = walked(tmp_path)
    assert names == "keep.log docs/a.txt other/b.gen src/a.log src/top.txt".split()
    assert left_out == Counter(ignored=6, hidden=2)
    assert len(walked(tmp_path, everything=True)[0]) == 13


def test_an_ignore_file_comes_after_gitignore(tmp_path):
    tree_in(tmp_path, "a.txt", "b.txt")
    patterns_in(tmp_path, "a.txt")
    patterns_in(tmp_path, "!a.txt", "b.txt", name=".ignore")
    assert walked(tmp_path)[0] == ["a.txt"]


def test_the_patterns_above_a_root_do_not_hold_in_it(tmp_path):
    tree_in(tmp_path, "inner/a.txt")
    patterns_in(tmp_path, "*.txt")
    assert walked(tmp_path / "inner")[0] == ["a.txt"]


def test_a_part_of_what_is_in_an_ignored_folder_can_be_excepted(tmp_path):
    tree_in(tmp_path, "gen/keep.txt", "gen/other.txt", "all/keep.txt")
    patterns_in(tmp_path, "gen/**", "!gen/keep.txt", "all/", "!all/keep.txt")
    assert walked(tmp_path)[0] == ["gen/keep.txt"]  # as in git: not below a folder that is ignored


def test_wrong_and_hostile_patterns_are_harmless(tmp_path):
    tree_in(tmp_path, "a" * 200, "b.txt", "c.txt")
    patterns_in(
        *(tmp_path, "[z-a]", "!", "\\", "a*" * 60 + "b", "**/a/" * 50 + "b", "[", "/", "b.txt")
    )
    assert walked(tmp_path)[0] == ["a" * 200, "c.txt"]


def test_a_gitignore_that_is_no_file_is_passed_by(tmp_path):
    tree_in(tmp_path, "a/.gitignore/", "a/a.txt", "b/b.txt", "c/c.txt", "patterns")
    (tmp_path / "patterns").write_text("*.txt")
    (tmp_path / "b/.gitignore").symlink_to(tmp_path / "patterns")
    os.mkfifo(tmp_path / "c/.gitignore")
    assert walked(tmp_path)[0] == ["patterns", "a/a.txt", "b/b.txt", "c/c.txt"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_patterns(tmp_path, data):
    tree_in(tmp_path, "a.txt")
    (tmp_path / ".gitignore").write_bytes(data)
    assert walked(tmp_path)[0] in (["a.txt"], [])


def test_links_are_counted_and_not_followed(tmp_path):
    tree_in(tmp_path, "inside/a.txt", "outside/b.txt")
    inside = tmp_path / "inside"
    (inside / "loop").symlink_to(inside)
    (inside / "up").symlink_to(tmp_path)
    (inside / "folder").symlink_to(tmp_path / "outside")
    (inside / "file.txt").symlink_to(tmp_path / "outside/b.txt")
    (inside / "broken").symlink_to(tmp_path / "nothing")
    assert walked(inside) == (["a.txt"], Counter(link=5))
    assert find(inside / "loop/a.txt", [inside]) is None
    assert find(inside / "folder/b.txt", [inside]) is None


def test_a_root_that_is_a_link_is_resolved(tmp_path):
    tree_in(tmp_path, "real/a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (found,) = walk([tmp_path / "link"])
    assert found.path == tmp_path / "real/a.txt"


def test_pipes_and_sockets_are_no_files(tmp_path):
    tree_in(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(".", os.O_RDONLY)
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
            os.close(here)
    assert walked(tmp_path) == (["a.txt"], Counter({"not a file": 2}))


def test_empty_files_are_counted(tmp_path):
    tree_in(tmp_path, "a.txt")
    (tmp_path / "empty.txt").touch()
    assert walked(tmp_path) == (["a.txt"], Counter(empty=1))


def test_overlapping_roots_give_each_file_once(tmp_path):
    tree_in(tmp_path, "a.txt", "in/b.txt", "in/deep/c.txt", ".hidden/d.txt", "e.txt")
    roots = [tmp_path, tmp_path / "in", tmp_path / "in", tmp_path / ".hidden", tmp_path / "e.txt"]
    found = list(walk(roots))
    names = ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"]
    assert [one.path.name for one in found] == names
    assert [find(one.path, roots) for one in found] == found


def test_roots_whose_names_begin_alike_are_not_in_each_other(tmp_path):
    tree_in(tmp_path, "a/x.txt", "ab/y.txt")
    assert find(tmp_path / "ab/y.txt", [tmp_path / "a"]) is None
    assert find(tmp_path / "ab/y.txt", [tmp_path / "a", tmp_path / "ab"]) is not None


def test_a_root_that_is_a_file_is_that_file(tmp_path):
    tree_in(tmp_path, ".notes.txt", "other.txt")
    (found,) = walk([tmp_path / ".notes.txt"])
    assert found.path == tmp_path / ".notes.txt"


def test_a_root_that_is_not_there_is_a_mistake_that_names_it(tmp_path):
    with pytest.raises(Mistake, match=r"there is no file or folder .*/nothing"):
        walk([tmp_path / "nothing"])
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(Mistake, match="loop' cannot be opened"):
        walk([tmp_path / "loop"])
    with pytest.raises(Mistake, match="not UTF-8"):
        walk([Path(os.fsdecode(b"/tmp/caf\xe9"))])


def test_names_that_are_not_utf8_are_counted(tmp_path):
    tree_in(tmp_path, "café.txt")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (tmp_path / os.fsdecode(b"folder\xff")).mkdir()
    assert walked(tmp_path) == (["café.txt"], Counter({"name not UTF-8": 2}))


def test_names_of_any_other_form_are_given(tmp_path):
    names = ["-rf", "a\nb.txt", "a b", "'\"", "日本.txt", "x" * 255]
    tree_in(tmp_path, *names)
    assert sorted(walked(tmp_path)[0]) == sorted(names)


def test_files_that_are_removed_while_walking_are_counted(tmp_path):
    tree_in(tmp_path, "a.txt", "b.txt", "c/d.txt", "e/f.txt")
    left_out: Counter[str] = Counter()
    walking = walk([tmp_path], left_out=left_out)
    assert next(walking).path.name == "a.txt"
    (tmp_path / "b.txt").unlink()
    (tmp_path / "c/d.txt").unlink()
    (tmp_path / "c").rmdir()
    assert [found.path.name for found in walking] == ["f.txt"]
    assert left_out == Counter(gone=2)


def test_a_folder_without_permission_is_counted(tmp_path, monkeypatch):
    tree_in(tmp_path, "a.txt", "closed/b.txt")
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "no", path)
        return scan(path)

    left_out: Counter[str] = Counter()
    monkeypatch.setattr(walking_module.os, "scandir", refuse)
    assert [found.path.name for found in walk([tmp_path], left_out=left_out)] == ["a.txt"]
    assert left_out == Counter({"no permission": 1})


def test_folders_of_the_system_are_left_out(tmp_path, monkeypatch):
    tree_in(tmp_path, "proc/a.txt", "a.txt")
    monkeypatch.setattr(walking_module, "SYSTEM", frozenset((str(tmp_path / "proc"),)))
    assert walked(tmp_path) == (["a.txt"], Counter(system=1))


def test_a_path_outside_of_all_roots_or_gone_is_not_found(tmp_path):
    tree_in(tmp_path, "in/a.txt", "out/b.txt")
    assert find(tmp_path / "out/b.txt", [tmp_path / "in"]) is None
    assert find(tmp_path / "in/../out/b.txt", [tmp_path / "in"]) is None
    assert find(tmp_path / "in/gone.txt", [tmp_path / "in"]) is None
    assert find(tmp_path / "in", [tmp_path / "in"]) is None


def test_a_deep_tree_is_walked(tmp_path):
    deep = tmp_path.joinpath(*["d"] * 500)
    deep.mkdir(parents=True)
    (deep / "a.txt").write_text("x")
    assert [found.path for found in walk([tmp_path])] == [deep / "a.txt"]


def test_a_missing_package_is_told_when_it_is_needed(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "pathspec":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    tree_in(tmp_path, "a.txt")
    assert walked(tmp_path)[0] == ["a.txt"]
    patterns_in(tmp_path, "*.log")
    with pytest.raises(Mistake, match=r"pip install 'foltr\[device\]'"):
        list(walk([tmp_path]))
