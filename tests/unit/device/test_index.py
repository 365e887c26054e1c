"""The index file: what is stored is found, what is removed is gone, nothing is half there."""

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.device.content import Text
from foltr.device.index import Index
from foltr.device.query import parsed
from foltr.device.searching import candidates, slots_of
from foltr.device.tokens import id_of
from property_settings import examples


def page(body, title="A page", headings="", part="", date=None):
    return Text("text", title, headings, body, date, part)


def stored(index, **files):
    with index.batch():
        for name, text in files.items():
            texts = text if isinstance(text, list) else [page(text)]
            index.put(f"/docs/{name}.txt", 1, 1, texts)


def names(index, text, typing=False):
    """The files that a query finds."""
    query = parsed(text, typing)
    found = index.documents(candidates(index, query, slots_of(index, query)))
    return [
        document.path.removeprefix("/docs/").removesuffix(".txt") for document in found.values()
    ]


def words_are_sound(index):
    index._db.execute("insert into words (words) values ('integrity-check')")


def test_a_document_is_found_by_its_words():
    index = Index(None)
    stored(index, a="the quick brown fox", b="a lazy dog", c="quick dogs")
    assert set(names(index, "quick")) == {"a", "c"}
    assert names(index, "lazy dog")[0] == "b"
    assert names(index, "dog quick")[0] == "c"  # the only one with both
    assert names(index, "cat") == []


def test_a_phrase_a_beginning_and_another_script():
    index = Index(None)
    stored(index, a="red apple pie", b="apple red", c="日本語の検索エンジン", d="Überraschung")
    assert names(index, '"red apple"') == ["a"]
    assert set(names(index, "app*")) == {"a", "b"}
    assert set(names(index, "red ap", typing=True)) >= {"a", "b"}
    assert names(index, "検索") == names(index, "エンジン") == names(index, "検") == ["c"]
    assert names(index, "uberraschung") == ["d"]


def test_a_changed_document_is_found_by_its_new_words_only():
    index = Index(None)
    stored(index, a="winter", b="autumn")
    stored(index, a="summer")
    assert names(index, "summer") == ["a"] and names(index, "winter") == []
    assert index.frequencies("winter").sum() == 0.0
    words_are_sound(index)


def test_an_unchanged_document_keeps_its_number():
    index = Index(None)
    stored(index, a="winter")
    before = index.files()["/docs/a.txt"]
    (first,) = index._db.execute("select id from document").fetchall()
    with index.batch():
        assert index.put("/docs/a.txt", 1, 2, [page("winter", date=5.0)]) == 0
        assert index.put("/docs/a.txt", 1, 3, [page("winter again")]) == 1
    assert index._db.execute("select id from document").fetchall() == [first]
    assert before.id == index.files()["/docs/a.txt"].id


def test_a_removed_file_leaves_nothing():
    index = Index(None)
    stored(index, a=[page("alpha beta", "Secret"), page("gamma", part="2")], b="delta")
    with index.batch():
        index.remove("/docs/a.txt")
        index.remove("/docs/never.txt")
    assert list(index.files()) == ["/docs/b.txt"]
    for table in ("document", "content", "forward"):
        assert index._db.execute(f"select count(*) from {table}").fetchone() == (1,)
    terms = [term for (term,) in index._db.execute("select term from term")]
    assert sorted(terms) == ["a", "delta", "page"]
    assert names(index, "alpha") == names(index, "secret") == []
    words_are_sound(index)


def test_parts_of_a_file_come_and_go_one_by_one():
    index = Index(None)
    stored(index, box=[page("one", part="1"), page("two", part="2")])
    stored(index, box=[page("two", part="2"), page("three", part="3")])
    assert names(index, "one") == []
    assert names(index, "two") == names(index, "three") == ["box"]
    assert index.statistics().documents == 2


def test_a_batch_is_all_or_nothing():
    index = Index(None)
    stored(index, a="before")
    with pytest.raises(RuntimeError), index.batch():
        index.put("/docs/a.txt", 1, 2, [page("after")])
        index.put("/docs/b.txt", 1, 2, [page("other")])
        raise RuntimeError
    assert names(index, "before") == ["a"] and names(index, "after") == []
    assert index.frequencies("other").sum() == 0.0
    stored(index, c="later")
    assert index.frequencies("other").sum() == 0.0  # counts of the lost batch are lost too


def test_counts_of_terms_are_those_of_the_documents():
    index = Index(None)
    stored(index, a=[page("fish fish bird", "Fish", "bird")], b="fish")
    assert index.frequencies("fish").tolist() == [[1, 1], [0, 0], [2, 3]]
    assert index.frequencies("bird").tolist() == [[0, 0], [1, 1], [1, 1]]
    assert index.statistics().documents == 2
    assert index.statistics().lengths == (1.5, 0.5, 2.0)


def test_the_forward_index_has_the_terms_in_order():
    index = Index(None)
    stored(index, a=[page("beta alpha beta", "Alpha", "gamma")])
    (doc,) = index.forward([1, 99])
    found = doc.terms[doc.tokens]
    wanted = ["alpha", "gamma", "beta", "alpha", "beta"]
    assert found.tolist() == [id_of(term) for term in wanted]
    assert doc.lengths.tolist() == [1, 1, 3] and (np.diff(doc.terms.astype(np.int64)) > 0).all()


def test_a_document_of_many_different_words():
    index = Index(None)
    stored(index, a=" ".join(f"w{i}" for i in range(50_000)))
    (doc,) = index.forward([1])
    assert doc.lengths.tolist()[2] == 50_000 and len(doc.tokens) == 1 << 15
    assert doc.terms[doc.tokens[1000]] == id_of("w998")  # after two words of the title
    assert names(index, "w49999") == ["a"]  # FTS5 has all of them


def test_filters_of_folder_kind_and_date():
    index = Index(None)
    with index.batch():
        index.put("/home/ann/notes/a.txt", 1, 1, [page("apple", date=100.0)])
        index.put("/home/ann/work/b.md", 1, 1, [Text("markdown", "t", "", "apple", 300.0)])

    def found(text):
        query = parsed(text)
        ids = candidates(index, query, slots_of(index, query))
        return [document.path[-4:] for document in index.documents(ids).values()]

    assert sorted(found("apple")) == [".txt", "b.md"]
    assert found("apple folder:notes") == [".txt"] and found("apple folder:note") == []
    assert found("apple folder:ann/work") == ["b.md"]
    assert found("apple type:markdown") == ["b.md"]
    assert found("apple before:1970-01-01") == []
    assert len(found("apple after:1970")) == 2


def test_the_file_is_for_its_owner_alone(tmp_path):
    Index(tmp_path / "index.db").close()
    assert stat.S_IMODE(os.stat(tmp_path / "index.db").st_mode) == 0o600


def test_an_index_of_another_version_is_refused_and_not_changed(tmp_path):
    path = tmp_path / "index.db"
    index = Index(path)
    index.set_about("format", b"99 1")
    index.close()
    before = path.read_bytes()
    with pytest.raises(Mistake, match=r"another version of foltr \(format 99 1"):
        Index(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all, but text", b"\x00" * 5000])
def test_another_file_is_not_taken_for_an_index(tmp_path, content):
    path = tmp_path / "index.db"
    path.write_bytes(content)
    with pytest.raises(Mistake, match=r"is damaged|is no index of foltr"):
        Index(path)
    assert path.read_bytes() == content


def test_another_database_is_not_taken_for_an_index(tmp_path):
    path = tmp_path / "photos.db"
    db = sqlite3.connect(path)
    db.execute("create table photo (id)")
    db.commit()
    db.close()
    with pytest.raises(Mistake, match="is no index of foltr"):
        Index(path)


def test_terms_that_have_changed_are_made_again():
    """As after an upgrade of Unicode: what was stored cannot be deleted term by term."""
    index = Index(None)
    stored(index, a="winter", b="summer day")
    index._db.execute("update document set checksum = checksum + 1 where id = 1")
    stored(index, a="spring")
    assert names(index, "winter") == [] and names(index, "spring") == ["a"]
    assert names(index, "summer day") == ["b"]
    assert index.frequencies("winter").sum() == 0.0
    assert index.frequencies("summer")[2].tolist() == [1, 1]
    words_are_sound(index)


def test_a_killed_process_leaves_whole_batches(tmp_path):
    """kill -9 in the middle of a batch, several times."""
    path = tmp_path / "index.db"
    code = textwrap.dedent(
        f"""
        import os, sys
        from pathlib import Path
        from foltr.device.index import Index
        from foltr.device.content import Text
        index, at = Index(Path({str(path)!r})), int(sys.argv[1])
        for batch in range(3):
            with index.batch():
                for i in range(20):
                    name = f"/d/{{at}}-{{batch}}-{{i}}"
                    text = Text("text", name, "", f"common word{{at}}x{{batch}}x{{i}} " * 50)
                    index.put(name, 1, 1, [text])
                    if batch == 2 and i == 10:
                        os.kill(os.getpid(), 9)
        """
    )
    for at in range(3):
        made = subprocess.run([sys.executable, "-c", code, str(at)], capture_output=True)
        assert made.returncode == -9, made.stderr
    index = Index(path)
    assert index.statistics().documents == len(index.files()) == 3 * 40
    assert index.frequencies("common")[2].tolist() == [120, 6000]
    assert index._db.execute("pragma integrity_check").fetchone() == ("ok",)
    words_are_sound(index)


@examples(30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.none() | st.text(alphabet="wxyz ", min_size=1, max_size=12)
        ),
        max_size=12,
    )
)
def test_any_order_of_changes_leaves_what_is_there(changes):
    """The index after any changes is that of the last state."""
    index, now = Index(None), {}
    for name, text in changes:
        with index.batch():
            if text is None:
                index.remove(f"/docs/{name}.txt")
                now.pop(name, None)
            else:
                index.put(f"/docs/{name}.txt", 1, 1, [page(text)])
                now[name] = text
    fresh = Index(None)
    stored(fresh, **now)
    both = [
        each._db.execute("select * from term order by term").fetchall() for each in (index, fresh)
    ]
    assert both[0] == both[1]
    for word in {word for text in now.values() for word in text.split()}:
        holders = {name for name, text in now.items() if word in text.split()}
        assert set(names(index, word)) == holders
    words_are_sound(index)


def test_a_document_that_was_removed_meanwhile_is_empty():
    index = Index(None)
    stored(index, a="winter")
    with index.batch():
        index.remove("/docs/a.txt")
    assert index.texts(1) == ("", "") and index.places(1)[0] == "" and not index.documents([1])


def test_a_folder_with_another_letter_case_is_found():
    index = Index(None)
    with index.batch():
        index.put("/home/ann/\u00dcbung/a.txt", 1, 1, [page("apple")])
        index.put("/home/ann/Notes/b.txt", 1, 1, [page("apple")])
    for text, many in (("folder:\u00dcbung", 1), ("folder:notes", 1), ("folder:NOTES", 1)):
        query = parsed(f"apple {text}")
        assert len(candidates(index, query, slots_of(index, query))) == many
