"""Anyone's folder: Letor and Intents."""

import pytest

from foltr.components.sources.folder import Letor
from foltr.components.sources.intents import Intents
from foltr.core.errors import Mistake

LINES = "1 qid:1 1:5 2:4 #docid = a\n0 qid:2 1:3 2:9 #docid = b\n"


def test_a_folder_is_found_from_here_and_below_foltr_data(write, tmp_path, monkeypatch):
    for split in ("train", "valid", "test"):
        write(LINES, f"mine/{split}.txt")
    monkeypatch.chdir(tmp_path)
    here = Letor(path="mine").load("vali")
    monkeypatch.chdir("/")
    with pytest.raises(Mistake, match="no file or folder 'mine'"):
        Letor(path="mine").load("vali")
    monkeypatch.setenv("FOLTR_DATA", str(tmp_path))
    assert (
        Letor(path="mine").load("vali").content
        == here.content
        == Letor(path=str(tmp_path / "mine")).load("vali").content
    )


def test_splits_share_grades_and_width(write, tmp_path):
    write("1 qid:1 1:5\n", "train.txt")
    write("4 qid:1 1:5 9:1\n", "test.txt")
    train = Letor(path=str(tmp_path), sparse=True).load("train")
    assert (train.width, train.grades, train.storage.shape) == (9, 5, (1, 16))
    with pytest.raises(Mistake, match=r"line 1: .*sparse=True"):
        Letor(path=str(tmp_path)).load("train")


def test_splits_with_other_widths_do_not_go_together(write, tmp_path):
    write("1 qid:1 1:5\n", "train.txt")
    write("1 qid:1 1:5 2:1\n", "test.txt")
    with pytest.raises(Mistake, match=r"train.txt, line 1: 1 features, but .*test.txt has 2"):
        Letor(path=str(tmp_path)).load("train")


def test_a_missing_file_is_named(write, tmp_path):
    write(LINES)
    with pytest.raises(Mistake, match=r"has no test\.txt"):
        Letor(path=str(tmp_path)).load("train")
    with pytest.raises(Mistake, match="no split is called 'dev'"):
        Letor(path=str(tmp_path)).load("dev")


@pytest.mark.parametrize("wrong", [{"features": 0}, {"grades": 1}, {"grades": 129}])
def test_impossible_fields_are_refused(wrong):
    with pytest.raises(Mistake):
        Letor(path="x", **wrong)


def test_intents_are_labellings_of_the_same_documents(write, tmp_path):
    write(LINES, "2.txt")
    write(LINES.replace("1 qid:1", "0 qid:1"), "10.txt")
    data = Intents(path=str(tmp_path)).load("train")
    assert data.labels.tolist() == [[1, 0], [0, 0]] and data.grades == 2
    assert Intents(path=str(tmp_path)).load("test").content == data.content


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (LINES.replace("1:3", "1:4"), 2),
        (LINES.replace("qid:2", "qid:3"), 2),
        (LINES.replace("docid = a", "docid = c"), 1),
        (LINES + "0 qid:2 1:3 2:9\n", 3),
        (LINES.replace(" 2:4", "").replace(" 2:9", ""), 1),
    ],
)
def test_other_documents_are_named_by_file_and_line(write, tmp_path, other, line):
    write(LINES, "1.txt")
    path = write("\n" + other, "2.txt")
    with pytest.raises(Mistake) as caught:
        Intents(path=str(tmp_path)).load("train")
    assert str(caught.value).startswith(f"{path}, line {line + 1}: ")


def test_a_folder_without_intents_is_refused(tmp_path):
    with pytest.raises(Mistake, match="one LETOR file per intent"):
        Intents(path=str(tmp_path)).load("train")


def test_a_file_says_whose_queries_they_are(write, tmp_path):
    for split in ("train", "test"):
        write(LINES, f"{split}.txt")
    write("2\tanna\n1\tbob\n\n", "users.tsv")
    plain, named = (Letor(path=str(tmp_path), users=u).load("train") for u in (None, "users.tsv"))
    assert plain.users is None and named.users.tolist() == [b"bob", b"anna"]
    assert named.content != plain.content
    write("2\tbob\n1\tbob\n", "users.tsv")
    other = Letor(path=str(tmp_path), users="users.tsv").load("train")
    assert other.content not in (named.content, plain.content)
    assert repr(Letor(path="x")).endswith("clip=False)")  # runs of before keep their identity


@pytest.mark.parametrize(
    "text, told",
    [
        ("1\tbob\n", "does not say who searched 1 queries: 2"),
        ("1\tbob\n2 anna\n", "line 2: write the query id, a tab and the user"),
        ("1\tbob\n2\tanna\n1\tanna\n", "line 3: query 1 has two users"),
    ],
)
def test_a_wrong_file_of_users_is_named(write, tmp_path, text, told):
    for split in ("train", "test"):
        write(LINES, f"{split}.txt")
    write(text, "users.tsv")
    with pytest.raises(Mistake, match=told):
        Letor(path=str(tmp_path), users="users.tsv").load("train")


def test_users_are_a_file_of_the_folder(write, tmp_path):
    for split in ("train", "test"):
        write(LINES, f"{split}.txt")
    with pytest.raises(Mistake, match="is not the name of a file in"):
        Letor(path=str(tmp_path), users="../users.tsv").load("train")
    with pytest.raises(Mistake, match="cannot read"):
        Letor(path=str(tmp_path), users="users.tsv").load("train")
