"""Published collections: layouts, lookup, facts, `foltr data`."""

import subprocess
import sys

import pytest

from foltr.components.sources.intent_change import IntentChange
from foltr.components.sources.published import MQ2007, MSLR10K, IstellaS, Yahoo
from foltr.core.errors import Mistake
from foltr.core.spec import sources
from foltr.data import catalogue
from foltr.data import collection as lookup


def line(label, query, features, more=""):
    return (
        f"{label} qid:{query}"
        f" {' '.join(f'{i}:{(i * 7 + label) % 5}' for i in range(1, features + 1))}{more}\n"
    )


def test_all_sources_are_found_and_their_repr_is_their_config():
    names = {
        "IntentChange",
        "Intents",
        "IstellaS",
        "Letor",
        "MQ2007",
        "MQ2008",
        "MSLR10K",
        "MSLR30K",
        "Synthetic",
        "Yahoo",
    }
    assert names <= set(sources.members())
    for name in names - {"Letor", "Intents"}:
        built = sources.members()[name]()
        assert sources.build(repr(built)) == built


def test_finding_sources_imports_no_compiler():
    code = (
        "import sys; from foltr.data import catalogue; catalogue.listing(); print({*sys.modules} &"
        " {'numba', 'scipy'})"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


@pytest.mark.parametrize(
    "spec", ["MQ2007(fold=6)", "MQ2008(fold=0)", "Yahoo(set=3)", "MSLR10K(fold=-1)"]
)
def test_what_does_not_exist_is_refused(spec):
    with pytest.raises(Mistake, match="does not exist"):
        sources.build(spec)


def test_an_absent_collection_says_where_to_get_it_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLTR_DATA", str(tmp_path / "mine"))
    with pytest.raises(Mistake) as caught:
        MSLR10K(fold=2).load("vali")
    for told in (
        "microsoft.com",
        "MSLR-WEB10K/Fold2/vali.txt",
        str(tmp_path / "mine"),
        "FOLTR_DATA",
        "foltr data add MSLR10K",
    ):
        assert told in str(caught.value)


def test_layouts_of_the_owners(write, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLTR_DATA", str(tmp_path))
    write(line(2, 10, 46), "MQ2007/Fold3/vali.txt")
    write(line(4, 10, 136) + line(0, 10, 136), "MSLR-WEB10K/Fold1/test.txt")
    write("0 qid:1 5:0.5 700:1\n4 qid:1 1:0.25\n", "Yahoo/set2.valid.txt")
    write(
        "0 qid:1 1:1.79769313486e+308 220:1\n4 qid:1 1:0.25\n", "istella-s-letor/sample/train.txt"
    )
    assert (MQ2007(fold=3).load("vali").width, MQ2007(fold=3).load("vali").grades) == (46, 3)
    assert MSLR10K().load("test").features[:, 0].tolist() == [0, 1]
    assert Yahoo(set=2).load("vali").features[:, [0, 4, 699]].tolist() == [[0, 1, 1], [1, 0, 0]]
    assert IstellaS().load("train").features[:, 0].tolist() == [1, 0]


def test_intent_change_takes_labels_from_judgements(write, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLTR_DATA", str(tmp_path))
    write(
        line(0, 7, 105, " # docid = d1") + line(0, 7, 105, " # docid = d2"),
        "IntentChange/clueweb09_intent_change.txt",
    )
    for intent, document in enumerate(("d1", "d2", "d1", "d2"), 1):
        write(f"7 0 {document} 2\n7 0 other 1\n7 0 d9 0\n", f"IntentChange/intents/{intent}.txt")
    data = IntentChange().load("test")
    assert data.labels.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]] and data.grades == 2
    bad = write("7 0 d1 1\n7 d1 1\n", "IntentChange/intents/3.txt")
    with pytest.raises(Mistake) as caught:
        IntentChange().load("train")
    assert str(caught.value).startswith(f"{bad}, line 2: ")


def tiny_istella(write, more=""):
    for split, text in (
        ("train", line(0, 1, 220)),
        ("vali", line(4, 2, 220)),
        ("test", line(1, 3, 220) + more),
    ):
        write(text, f"disk/sample/{split}.txt")


def test_add_refuses_other_data_than_the_published(write, tmp_path):
    tiny_istella(write)
    told = []
    with pytest.raises(
        Mistake, match=r"not IstellaS as published \(sample has 3 queries, 3 documents, not 33,018"
    ):
        catalogue.add("IstellaS", tmp_path / "disk", told.append)
    assert "NOT the same" in told[-1] and lookup.registered() == {}
    with pytest.raises(Mistake, match="there is no folder"):
        catalogue.add("IstellaS", tmp_path / "nowhere")


def test_add_checks_counts_and_registers(write, tmp_path, monkeypatch):
    tiny_istella(write)
    monkeypatch.setitem(IstellaS.collection.published, "sample", (3, 3))
    with pytest.raises(Mistake, match="not on this machine"):
        IstellaS().load("test")
    told = []
    catalogue.add("IstellaS", tmp_path / "disk", told.append)
    assert "  sample: 3 queries, 3 documents (as published)" in told and "registered" in told[-1]
    assert IstellaS().load("test").documents == 1
    row = next(row for row in catalogue.listing() if row.name == "IstellaS")
    assert row.present and row.where == str((tmp_path / "disk").resolve())


def test_add_names_what_is_wrong_and_registers_nothing(write, tmp_path):
    tiny_istella(write, "oops\n")
    with pytest.raises(Mistake, match=r"test\.txt, line 2: "):
        catalogue.add("IstellaS", tmp_path / "disk")
    with pytest.raises(Mistake, match=r"lacks sample/test\.txt"):
        catalogue.add("IstellaS", tmp_path)
    with pytest.raises(Mistake, match="did you mean 'IstellaS'"):
        catalogue.add("Istela", tmp_path)
    assert lookup.registered() == {}


def test_a_broken_registry_is_a_mistake(write):
    lookup.registry().parent.mkdir(parents=True)
    lookup.registry().write_text("[1")
    with pytest.raises(Mistake, match="registry"):
        MQ2007().load("train")


def test_info_names_home_terms_and_counts():
    text = catalogue.info("MQ2008")
    for told in (
        "784 queries, 15,211 documents",
        "microsoft.com",
        "agreement",
        "Fold5/test.txt",
        "not on this machine",
    ):
        assert told in text
