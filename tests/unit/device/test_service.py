"""What the page of a device asks: lists are logged only when they are looked at, clicks count
once, and what is forgotten is gone."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.core.system.state_file import Unusable
from foltr.device import service as service_module
from foltr.device.click_log import ClickLog
from foltr.device.content import Text
from foltr.device.guard import Guard
from foltr.device.index import Index
from foltr.device.learning import LocalRanker
from foltr.device.searching import Slot
from foltr.device.service import LONGEST, OPEN_SECONDS, REMEMBERED, SUGGESTED, Service
from foltr.device.snippets import distance, marked, similar_word
from foltr.device.tokens import id_of
from property_settings import examples

DAY = 86_400.0
NOW = 1_700_000_000.0


def put_document(index, name, body, title=None, kind="text", age=0.0, folder="notes"):
    text = Text(kind, title or f"About {name}", "", body, NOW - age * DAY)
    with index.batch():
        index.put(f"/home/me/{folder}/{name}", len(body), int(1e9 * NOW), [text])


def filled_index(path=None):
    """Thirty documents about kernels, and a few others."""
    index = Index(path)
    with index.batch():
        for n in range(30):
            body = f"kernel module number {n}. " + "filler words " * n + "scheduler " * (n % 4)
            text = Text("text", f"Kernel note {n}", "", body, NOW - n * DAY)
            index.put(f"/home/me/notes/kernel{n}.txt", len(body), int(1e9 * NOW), [text])
    put_document(index, "rent.md", "The rent contract of 2023.", "Rent", "markdown", 40, "flat")
    put_document(index, "rent.pdf", "A contract for the flat.", "Flat", "pdf", 2, "flat")
    put_document(index, "long.txt", "alpha beta gamma delta " * 9000, age=8.5)
    return index


def service_of(index=None, log=None, guard=None):
    log = log or ClickLog(None)
    return Service(index or filled_index(), log, LocalRanker(log, guard=guard or Guard()))


@pytest.fixture
def searcher():
    return service_of()


def ids_of(found):
    return [result["id"] for result in found["results"]]


def looked_at(service, text):
    found = service.search(text)
    service.look(found["list"])
    return found


def clicked_on(service, text, place=0):
    found = looked_at(service, text)
    service.open(found["list"], found["results"][place]["id"], "preview")
    return found


def joined_pieces(pieces):
    return "".join(text for text, _ in pieces)


# ---- searching


def test_a_result_has_what_the_page_shows(searcher):
    found = searcher.search("rent contract")
    first = found["results"][0]
    assert joined_pieces(first["title"]) == "Rent"
    assert [text for text, marked in first["title"] if marked] == ["Rent"]
    assert joined_pieces(first["snippet"]) == "The rent contract of 2023."
    assert [text for text, marked in first["snippet"] if marked] == ["rent", "contract"]
    assert (first["path"], first["folder"]) == ("/home/me/flat/rent.md", "flat")
    assert (first["kind"], first["date"], first["part"]) == ("markdown", NOW - 40 * DAY, "")
    assert found["empty"] is None and found["note"] == ""
    assert found["milliseconds"] >= 0 and len(found["list"]) >= 12
    json.dumps(found)


def test_ten_results_of_all_that_were_found(searcher):
    found = searcher.search("kernel")
    assert len(found["results"]) == 10 and found["found"] == 30


def test_the_last_word_may_be_incomplete_only_while_it_is_typed(searcher):
    assert searcher.search("sched", typing=True)["found"] == 22
    assert searcher.search("sched")["found"] == 0


def test_a_query_of_filters_alone_lists_the_newest_documents(searcher):
    found = searcher.search("folder:notes")
    titles = [joined_pieces(result["title"]) for result in found["results"]]
    assert titles == [f"Kernel note {n}" for n in range(9)] + ["About long.txt"]
    assert (found["list"], found["shown_by"], found["found"]) == ("", "date", 10)
    begins = joined_pieces(found["results"][0]["snippet"])
    assert begins.startswith("kernel module number 0") and not any(
        marked for result in found["results"] for _, marked in result["snippet"]
    )
    assert [r["kind"] for r in searcher.search("type:pdf")["results"]] == ["pdf"]
    assert searcher.search("")["results"] == []


def test_a_document_of_a_list_by_date_can_be_opened_and_is_no_click(searcher):
    found = searcher.search("type:pdf")
    id = found["results"][0]["id"]
    assert searcher.open("", id, "program").path == "/home/me/flat/rent.pdf"
    assert searcher.preview("", id)["pieces"] == [("A contract for the flat.", False)]
    assert searcher.log.counts() == (0, 0)
    with pytest.raises(Mistake, match="not there any more"):
        searcher.open("", 12345, "program")
    with pytest.raises(Mistake, match="too old"):
        searcher.look("")


def test_a_wrong_filter_is_noted_and_the_rest_is_searched_for(searcher):
    found = searcher.search("kernel type:pfd")
    assert "type:pfd is no type of document" in found["note"] and "'pdf'" in found["note"]
    assert len(found["results"]) == 10
    assert searcher.search("kernel type:pf", typing=True)["note"] == ""


def test_an_empty_result_says_which_words_are_unknown_and_what_may_be_meant(searcher):
    empty = searcher.search("kernle zzzzqqqq")["empty"]
    assert empty == {
        "unknown": ["kernle", "zzzzqqqq"],
        "similar": {"kernle": "kernel"},
        "without_filters": 0,
    }


def test_an_empty_result_says_what_there_is_without_filters(searcher):
    empty = searcher.search("kernel type:pdf")["empty"]
    assert empty == {"unknown": [], "similar": {}, "without_filters": 30}


def test_a_long_query_of_unknown_words_asks_for_few_similar_ones(searcher, monkeypatch):
    asked = []
    monkeypatch.setattr(service_module, "similar_word", lambda index, word: asked.append(word))
    empty = searcher.search(" ".join(f"kqzx{n}" for n in range(50)))["empty"]
    assert len(empty["unknown"]) == 50 and len(asked) == SUGGESTED


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("kitten", "sitting", 3),
     ("ca", "abc", 3), ("a", "", 1)],
)  # fmt: skip
def test_the_distance_of_two_words(a, b, edits):
    assert distance(a, b, 100) == distance(b, a, 100) == edits


@given(st.text("abc", max_size=7), st.text("abc", max_size=7), st.integers(0, 8))
def test_a_limited_distance_is_exact_below_its_limit(a, b, most):
    exact, limited = distance(a, b, 100), distance(a, b, most)
    assert limited == exact if exact < most else limited >= most


def test_a_short_word_has_no_similar_one(searcher):
    assert similar_word(searcher.index, "ke") is None
    assert similar_word(searcher.index, "kernal") == "kernel"


# ---- looking


def test_a_list_that_nobody_looked_at_is_not_logged(searcher):
    for end in range(1, 7):
        searcher.search("kernel"[:end], typing=True)
    assert searcher.log.counts() == (0, 0)
    looked_at(searcher, "kernel")
    assert [each.query for each in searcher.log.last(10)] == ["kernel"]


def test_looking_twice_is_one_search(searcher):
    found = looked_at(searcher, "kernel")
    searcher.look(found["list"])
    assert searcher.log.counts()[0] == 1


def test_an_identical_list_is_the_same_search(searcher):
    first, second = looked_at(searcher, "kernel"), looked_at(searcher, "kernel ")
    assert first["list"] != second["list"] and ids_of(first) == ids_of(second)
    searcher.open(second["list"], ids_of(second)[0], "preview")
    (only,) = searcher.log.last(10)
    assert only.clicks.tolist() == [True] + [False] * 9


def test_the_same_query_after_another_one_is_another_search(searcher):
    for text in ("kernel", "rent", "kernel"):
        looked_at(searcher, text)
    assert [each.query for each in searcher.log.last(10)] == ["kernel", "rent", "kernel"]


def test_an_empty_list_is_not_logged(searcher):
    looked_at(searcher, "zzzzqqqq")
    assert searcher.log.counts()[0] == 0


def test_looking_learns_from_the_search_before(searcher):
    before = searcher.ranker.weights.copy()
    clicked_on(searcher, "kernel scheduler", 3)
    assert (searcher.ranker.weights == before).all() and len(searcher.log.unfinished()) == 1
    looked_at(searcher, "rent")
    assert (searcher.ranker.weights != before).any()
    assert [each.query for each in searcher.log.unfinished()] == ["rent"]


def test_an_open_search_is_learned_from_after_a_while(searcher, monkeypatch):
    before = searcher.ranker.weights.copy()
    clicked_on(searcher, "kernel scheduler", 3)
    now = time.time()
    monkeypatch.setattr(service_module.time, "time", lambda: now + OPEN_SECONDS - 5)
    searcher.close_old()
    assert len(searcher.log.unfinished()) == 1
    monkeypatch.setattr(service_module.time, "time", lambda: now + OPEN_SECONDS + 5)
    searcher.close_old()
    assert searcher.log.unfinished() == [] and (searcher.ranker.weights != before).any()


def test_a_restart_learns_from_a_search_that_was_left_open_for_long(monkeypatch):
    index, log = filled_index(), ClickLog(None)
    clicked_on(service_of(index, log), "kernel scheduler", 3)
    now = time.time()
    monkeypatch.setattr(service_module.time, "time", lambda: now + OPEN_SECONDS + 5)
    service_of(index, log)
    assert log.unfinished() == []


def test_fifty_searches_begin_a_new_epoch(searcher):
    for n in range(51):
        clicked_on(searcher, f"kernel {n}", n % 5)
    assert searcher.ranker.epoch.epoch == 1 and searcher.log.epoch().epoch == 1
    assert len(searcher.log.of_epoch(0)) == 50


def test_clicks_change_the_order():
    searcher = service_of(guard=Guard(on=False))
    before = searcher.search("kernel scheduler")
    assert before["shown_by"] == "learned"
    last = ids_of(before)[-1]
    for n in range(30):
        found = looked_at(searcher, "kernel scheduler" + "!" * n)
        searcher.open(found["list"], last, "preview")
    after = ids_of(searcher.search("kernel scheduler"))
    assert after != ids_of(before) and after.index(last) < 9


# ---- opening


def test_only_documents_of_the_list_can_be_opened(searcher):
    found, other = searcher.search("rent"), searcher.search("kernel")
    with pytest.raises(Mistake, match="is not in this list"):
        searcher.open(found["list"], ids_of(other)[0], "preview")
    hidden = set(range(1, 31)) - set(ids_of(other))
    with pytest.raises(Mistake, match="is not in this list"):
        searcher.open(other["list"], hidden.pop(), "preview")
    assert searcher.log.counts() == (0, 0)


def test_opening_a_document_looks_at_its_list(searcher):
    found = searcher.search("kernel")
    searcher.open(found["list"], ids_of(found)[2], "program")
    (only,) = searcher.log.last(10)
    assert only.clicks.nonzero()[0].tolist() == [2]


def test_a_late_click_is_noted_and_does_not_count(searcher):
    found = looked_at(searcher, "kernel")
    looked_at(searcher, "rent")
    weights = searcher.ranker.weights.copy()
    id = ids_of(found)[1]
    searcher.open(found["list"], id, "preview")
    first = searcher.log.last(10)[-1]
    assert first.learned and not first.clicks.any() and searcher.log.opened(first.id) == [id]
    assert (searcher.ranker.weights == weights).all()
    assert searcher.history(None)["searches"][1]["clicked"] == [
        joined_pieces(found["results"][1]["title"])
    ]


def test_a_list_that_is_too_old(searcher):
    first = searcher.search("rent")["list"]
    for _ in range(REMEMBERED):
        searcher.search("kernel")
    for ask in (
        lambda: searcher.look(first),
        lambda: searcher.open(first, 1, "preview"),
        lambda: searcher.preview(first, 1),
        lambda: searcher.compare(first),
        lambda: searcher.why(first, 1),
    ):
        with pytest.raises(Mistake, match="too old: search again"):
            ask()


def test_a_remembered_list_does_not_keep_the_terms_of_its_candidates(searcher):
    found = searcher.search("kernel")
    assert searcher._lists[found["list"]].found.forward == ()


def test_a_document_that_was_removed_in_between(searcher):
    found = looked_at(searcher, "kernel")
    first = found["results"][0]
    with searcher.index.batch():
        searcher.index.remove(first["path"])
    with pytest.raises(Mistake, match="not there any more"):
        searcher.preview(found["list"], first["id"])
    assert len(searcher.compare(found["list"])["shown"]) == 10
    assert searcher.why(found["list"], first["id"])["features"]
    (search,) = searcher.history(None)["searches"]
    assert search["clicked"] == ["(a document that is not there any more)"]
    assert first["id"] not in ids_of(searcher.search("kernel"))


def test_the_number_of_a_document_that_is_gone_is_not_given_again(searcher):
    put_document(searcher.index, "last.txt", "unicorn sighting")
    found = searcher.search("unicorn")
    with searcher.index.batch():
        searcher.index.remove("/home/me/notes/last.txt")
    put_document(searcher.index, "secret.txt", "another text")
    assert not searcher.index.documents(ids_of(found))
    with pytest.raises(Mistake, match="not there any more"):
        searcher.preview(found["list"], ids_of(found)[0])


# ---- the preview


def test_a_preview_has_the_whole_text_with_the_words_marked(searcher):
    found = searcher.search("kernel scheduler")
    shown = searcher.preview(found["list"], ids_of(found)[0])
    _, body = searcher.index.texts(ids_of(found)[0])
    assert joined_pieces(shown["pieces"]) == body and not shown["cut"]
    assert {text for text, marked in shown["pieces"] if marked} == {"kernel", "scheduler"}
    about = found["results"][0]
    assert (shown["path"], shown["kind"], shown["date"]) == tuple(
        about[name] for name in ("path", "kind", "date")
    )
    assert shown["title"] == joined_pieces(about["title"])


def test_a_long_preview_is_cut(searcher):
    found = searcher.search("gamma")
    shown = searcher.preview(found["list"], ids_of(found)[0])
    assert shown["cut"] and len(joined_pieces(shown["pieces"])) == LONGEST


@examples(200)
@given(st.text(max_size=60), st.lists(st.text(max_size=6), max_size=3))
def test_marked_pieces_joined_are_the_text(text, words):
    slots = [
        Slot((word,), np.array([id_of(word)], np.uint32), np.zeros((3, 2)))
        for word in (*words, "a", "kernel")
        if word.isprintable()
    ]
    pieces = marked(text, slots, single=False)
    assert joined_pieces(pieces) == text and all(piece.text for piece in pieces)


# ---- why


def test_compare_shows_the_list_of_bm25_beside_the_one_that_was_shown(searcher):
    found = searcher.search("kernel scheduler")
    compared = searcher.compare(found["list"])
    assert compared["shown"] == ids_of(found)
    made = searcher._lists[found["list"]]
    best = max(
        zip(made.found.features[:, 0], made.found.documents, strict=True), key=lambda x: x[0]
    )
    assert compared["bm25"][0] == best[1].id and len(compared["bm25"]) == 10
    assert set(compared["titles"]) == {str(id) for id in compared["shown"] + compared["bm25"]}
    looked_at(searcher, "rent")
    looked_at(searcher, "contract")
    assert searcher.compare(found["list"]) == compared  # whatever was learned since
    assert len(compared["teams"]) == 10 and set(compared["teams"]) <= {0, 1, 2}


def test_the_parts_of_a_score_add_up_to_it(searcher):
    for place in range(4):
        clicked_on(searcher, f"kernel scheduler {place}", place + 1)
    found = looked_at(searcher, "kernel scheduler")
    for id in ids_of(found):
        why = searcher.why(found["list"], id)
        parts = [part["contribution"] for part in why["features"]]
        assert sum(parts) == pytest.approx(why["score"], abs=len(parts) * 1e-4)
        assert [abs(part) for part in parts] == sorted(map(abs, parts), reverse=True)
        for part in why["features"]:
            product = part["value"] * part["weight"]
            assert part["contribution"] == pytest.approx(product, abs=1e-3)
            assert part["about"]
    with pytest.raises(Mistake, match="is not in this list"):
        searcher.why(found["list"], 12345)


# ---- the user's data


def test_while_paused_nothing_is_stored_and_nothing_learned(searcher):
    clicked_on(searcher, "kernel", 2)
    searcher.pause(True)
    assert searcher.paused and searcher.log.unfinished() == []  # learned from when it was paused
    weights, exported = searcher.ranker.weights.copy(), searcher.exported()
    for n in range(6):
        found = clicked_on(searcher, f"kernel {n}", 1)
        assert found["shown_by"] != "mixed"
        assert searcher.preview(found["list"], ids_of(found)[0])["pieces"]
    assert searcher.exported() == exported and (searcher.ranker.weights == weights).all()
    assert searcher.log.opened(searcher.log.last(1)[0].id) == [
        int(searcher.log.last(1)[0].documents[searcher.log.last(1)[0].ranking[2]])
    ]
    searcher.pause(False)
    clicked_on(searcher, "rent")
    assert not searcher.paused and searcher.log.counts() == (2, 2)


def test_a_click_on_a_list_from_before_the_pause_is_not_stored_while_paused(searcher):
    found = looked_at(searcher, "kernel")
    searcher.pause(True)
    searcher.open(found["list"], ids_of(found)[0], "preview")
    assert searcher.history(None)["searches"][0]["clicked"] == []


def test_history_comes_in_pages_newest_first(searcher):
    for n in range(5):
        clicked_on(searcher, f"kernel {n}")
    first = searcher.history(None, most=3)
    assert [each["query"] for each in first["searches"]] == ["kernel 4", "kernel 3", "kernel 2"]
    assert first["more"] and [each["learned"] for each in first["searches"]] == [False, True, True]
    assert not any(each["sent"] for each in first["searches"])
    rest = searcher.history(first["searches"][-1]["id"], most=3)
    assert [each["query"] for each in rest["searches"]] == ["kernel 1", "kernel 0"]
    assert not rest["more"] and len(rest["searches"][0]["clicked"]) == 1


def test_a_forgotten_search_is_gone_from_the_log_and_from_what_was_learned():
    index = filled_index()
    with_it, without = service_of(index), service_of(index)
    without.ranker.seed = with_it.ranker.seed
    without.ranker.replay()
    for n in range(4):
        clicked_on(with_it, f"kernel scheduler {n}", n + 1)
    for logged in reversed(with_it.log.last(10)):
        if logged.query != "kernel scheduler 1":
            without.log.add(replace(logged, learned=False))
    with_it.close_open()
    without.close_open()
    (id,) = [each.id for each in with_it.log.last(10) if each.query == "kernel scheduler 1"]
    assert (with_it.ranker.weights != without.ranker.weights).any()
    with_it.forget([id])
    assert with_it.ranker.weights.tobytes() == without.ranker.weights.tobytes()
    assert "scheduler 1" not in with_it.exported() and with_it.log.opened(id) == []
    with pytest.raises(Mistake, match="there is no search"):
        with_it.forget([id])


def test_a_list_whose_search_is_forgotten_cannot_be_opened_and_others_can(searcher):
    kept, gone = searcher.search("rent"), looked_at(searcher, "kernel")
    searcher.forget([searcher.log.last(1)[0].id])
    with pytest.raises(Mistake, match="too old: search again"):
        searcher.open(gone["list"], ids_of(gone)[0], "preview")
    assert searcher.log.counts()[0] == 0
    searcher.open(kept["list"], ids_of(kept)[0], "preview")
    assert [each.query for each in searcher.log.last(10)] == ["rent"]


def test_clearing_forgets_everything(searcher):
    start = searcher.ranker.weights.copy()
    for n in range(55):
        found = clicked_on(searcher, f"kernel scheduler {n}", n % 7)
    assert (searcher.ranker.weights != start).any()
    searcher.forget(None)
    assert searcher.log.counts() == (0, 0) and searcher.exported() == "[]"
    assert (searcher.ranker.weights == start).all() and searcher.ranker.evidence == 0.0
    with pytest.raises(Mistake, match="too old"):
        searcher.look(found["list"])


def test_an_export_has_all_searches(searcher):
    clicked_on(searcher, "kernel Übung 日本", 1)
    looked_at(searcher, "rent")
    first, second = json.loads(searcher.exported())
    assert first["query"] == "kernel Übung 日本" and second["query"] == "rent"
    assert first["clicked"] == [first["shown"][1]] and second["clicked"] == []
    assert first["time"] <= second["time"] and first["sent"] is None


# ---- several threads


def test_several_threads_at_once(tmp_path):
    path = tmp_path / "index.db"
    filled_index(path).close()
    log = ClickLog(path)
    searcher = Service(Index(path), log, LocalRanker(log))
    wrong = []

    def use(number):
        try:
            for n in range(12):
                found = clicked_on(searcher, f"kernel {number} {n}", n % 5)
                searcher.preview(found["list"], ids_of(found)[0])
                searcher.compare(found["list"])
                searcher.why(found["list"], ids_of(found)[0])
                searcher.history(None)
                searcher.close_old()
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and searcher.log.counts()[0] == 48
    assert all(searcher.log.opened(each.id) for each in searcher.log.last(100))
    searcher.close_open()
    weights = searcher.ranker.weights.tobytes()
    assert LocalRanker(log).weights.tobytes() == weights  # as if replayed in order


def test_a_document_is_shown_if_it_cannot_be_recorded(searcher, monkeypatch):
    """As on a full disk."""
    found = searcher.search("kernel")

    def full(*given):
        raise Unusable("the disk is full")

    monkeypatch.setattr(searcher.log, "add", full)
    shown = searcher.preview(found["list"], ids_of(found)[0])
    assert shown["pieces"] and shown["note"] == "This was not recorded: the disk is full"
    monkeypatch.undo()
    assert searcher.preview(found["list"], ids_of(found)[0])["note"] == ""


def test_lists_of_a_new_device_are_called_those_of_bm25(searcher):
    assert searcher.search("kernel")["shown_by"] == "bm25"
    assert searcher.ranker.shows(False) == "bm25"
