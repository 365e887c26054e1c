"""The study of device search: its simulated devices compute what real ones do, its beds have the
labels of their sources, and interrupted work gives the results of uninterrupted work."""

import json
from argparse import Namespace
from dataclasses import replace
from functools import partial

import device_search as script
import device_study as study
import device_study_corpora as study_corpora
import device_study_data as study_data
import numpy as np
import pytest
from device_study import CLICKS, METHODS, PERSONAL, Run
from device_study_corpora import DOCS, NEWCOMER, PEOPLE, TUNING
from device_study_data import Bed, load_bed
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.privatizers.gaussian import Gaussian
from foltr.core.errors import Mistake
from foltr.core.metrics import dcg
from foltr.core.ranking import best_first
from foltr.core.seeds import stream
from foltr.core.stepwise import Start
from foltr.device.click_log import ClickLog, LoggedSearch
from foltr.device.demo import simulated
from foltr.device.demo.simulated import (
    AFTER,
    Device,
    HeldOut,
    JudgedQuery,
    Place,
    dealt,
    federation,
    halves,
)
from foltr.device.guard import Guard
from foltr.device.index import Index
from foltr.device.learning import ALONE, START, LocalRanker, as_it_is
from foltr.device.query import parsed
from foltr.device.searching import NAMES, search
from property_settings import examples


def study_query(name, number, m=14):
    """A query whose best document has a large feature 5 and a small BM25."""
    draws = stream(3, name, number)
    features = draws.uniforms(m * len(NAMES)).reshape(m, len(NAMES)).astype(np.float32)
    labels = np.zeros(m, np.int8)
    best = int(np.argmax(features[:, 5] - 0.3 * features[:, 0]))
    labels[best], labels[(best + 1) % m] = 2, 1
    return JudgedQuery(features, labels, dcg(np.array([2, 1])) + 0.1)


def study_device(name, queries=12):
    return Device(name, 3, tuple(study_query(name, i) for i in range(queries)), name)


def study_bed(names="abc", queries=12):
    return Bed("made up", tuple(study_device(name, queries) for name in names), tuple(names))


def study_run(bed=None, clicks="informational", seed=1):
    return Run(bed or study_bed(), CLICKS[clicks], seed)


def same_outcome(one, other):
    return json.dumps(one.plain()) == json.dumps(other.plain())


def untold(what, done, total):
    pass


# --- devices ---


@pytest.mark.parametrize("clicks", CLICKS)
def test_a_device_alone_is_a_local_ranker_bit_for_bit(monkeypatch, clicks):
    weights = []
    monkeypatch.setattr(Place, "quality", lambda self, params: weights.append(params) or 0.0)
    run = study_run(study_bed("a"), clicks)
    (place,) = run.crowd.places(ALONE.sessions)
    study.one_learner([place])
    ranker, shown = LocalRanker(ClickLog(None)), []
    ranker.seed = place.person.seed
    ranker.replay()
    expected = []
    for made in range(100):
        query = place.person.device.queries[made % 6]
        order = ranker.order(query.features)
        draws = stream(ranker.seed, "user", made)
        clicked = CLICKS[clicks].clicks(query.labels[order.ranking], 3, draws)
        log = LoggedSearch(
            0, float(made), "q", ranker.epoch.epoch, order.shown_by, np.arange(14),
            query.features, order.ranking, order.teams, clicked,
        )  # fmt: skip
        ranker.learn(ranker.log.add(log))
        ranker.begin_epoch_if_full()
        shown.append(dcg(query.labels[order.ranking]) / query.ideal)
        if made + 1 in AFTER:
            expected.append(ranker.weights)
    assert [w.tobytes() for w in weights] == [w.tobytes() for w in expected]
    assert place.person.shown == shown
    assert ranker.epoch.epoch == 2 and np.abs(weights[-1] - START.init(len(NAMES), None)).max() > 0


@pytest.mark.parametrize("guard", [Guard(), Guard(on=False)], ids=["guarded", "unguarded"])
def test_one_device_and_a_server_are_the_steps_of_the_learner_by_hand(guard):
    run = study_run(study_bed("a"))
    found = federation([p.person for p in run.crowd.places(10, guard)], PERSONAL, run.seed)
    (place,) = run.crowd.places(10, guard)
    params = START.init(len(NAMES), stream(0)).astype(np.float64)
    memory = np.zeros(len(NAMES), np.float32)
    for t in range(10):
        draws = stream(place.person.seed, "ranking", t)
        start = Start(START, params.astype(np.float32), memory, 10, draws, t, as_it_is)
        sofar = PERSONAL.begin(start)
        for _ in range(10):
            searched = place.person.session(partial(PERSONAL.show, start, sofar))
            sofar = PERSONAL.step(start, sofar, *searched)
        update, _, memory = PERSONAL.finish(start, sofar)
        params = params + update
        if (made := 10 * (t + 1)) in found:
            assert found[made].params.tobytes() == params.astype(np.float32).tobytes()
            assert found[made].memory[0].tobytes() == memory.tobytes()
    assert np.abs(memory).max() > 0.0 and sorted(found) == [10, 20, 50, 100]


def test_the_server_takes_the_mean_of_what_devices_send():
    """Devices without memory that are the same send the same: the mean is what one sends."""
    run = study_run(study_bed("a"))
    one, two = (
        federation([p.person for _ in range(n) for p in run.crowd.places(10)], study.SHARED, 1)
        for n in (1, 2)
    )
    assert one[100].params.tobytes() == two[100].params.tobytes()


def test_without_a_guard_the_learned_list_is_shown():
    run = study_run(study_bed("a"))
    (place,) = run.crowd.places(10, Guard(on=False))
    last = place.person.session(lambda docs: np.arange(len(docs))[::-1])
    assert last[1].tolist() == list(range(13, 3, -1)) and place.person.won == []


def test_a_newcomer_has_not_clicked():
    """Its training half may be anything; that of the others matters."""
    bed, run = study_bed(), study_run()
    found = METHODS["newcomer"](run)

    def other(name):
        """The bed with other queries in the training half of a device."""
        (device,) = [each for each in bed.devices if each.name == name]
        half = {id(query) for query in halves(device, run.seed)[0].queries}
        queries = tuple(
            study_query("other", i) if id(query) in half else query
            for i, query in enumerate(device.queries)
        )
        changed = replace(device, queries=queries)
        return replace(run, bed=replace(bed, devices=tuple(
            changed if each is device else each for each in bed.devices
        )))  # fmt: skip

    changed = METHODS["newcomer"](other("a"))
    for n in AFTER:
        assert changed.held_out[n][0] == found.held_out[n][0]
    assert any(changed.held_out[n][1] != found.held_out[n][1] for n in AFTER)


def test_one_device_cannot_join_others():
    with pytest.raises(Mistake, match="a is the only device"):
        METHODS["newcomer"](study_run(study_bed("a")))


@pytest.mark.parametrize("method", ["local", "fedavg", "personal", "pooled", "newcomer"])
def test_the_same_seed_gives_the_same_numbers_and_another_one_others(method):
    first, again, other = (METHODS[method](study_run(seed=seed)) for seed in (1, 1, 2))
    assert same_outcome(first, again) and not same_outcome(first, other)
    assert first.devices == ("a", "b", "c") and sorted(first.held_out) == [10, 20, 50, 100]


def test_learning_from_clicks_finds_what_people_want():
    run = study_run(study_bed(queries=80), clicks="perfect")
    plain = METHODS["bm25"](run).held_out[0].mean()
    for method in ("local", "fedavg", "personal", "pooled", "newcomer"):
        assert METHODS[method](run).held_out[100].mean() > plain + 0.02, method
    assert METHODS["personal"](run).gained[100].mean() > 0.0


def test_labels_in_one_place_give_a_ranker():
    run = study_run(study_bed("abcdef"))
    plain = METHODS["bm25"](run).held_out[0].mean()
    assert METHODS["ranking-svm"](run).held_out[0].mean() > plain + 0.1


def test_gains_are_those_of_the_lists_that_were_shown():
    run = study_run()
    found = METHODS["personal-unguarded"](run)
    places = run.crowd.places(10, Guard(on=False))
    federation([place.person for place in places], PERSONAL, run.seed)
    person = places[1].person
    expected = np.mean(person.shown[:20]) - np.mean(person.plain[:20])
    assert found.gained[20][1] == pytest.approx(expected) and len(person.shown) == 100


def test_private_devices_share_the_queries_and_send_noise():
    run = study_run()
    noisy, without = (
        study.private(run, devices=9, noise=noise, clip=1.0) for noise in (10.0, None)
    )
    assert len(noisy.devices) == 9 and noisy.devices[:3] == ("a-1", "a-2", "a-3")
    assert sorted(noisy.held_out) == [50, 100] and not same_outcome(noisy, without)
    assert without.epsilon is None and noisy.epsilon is not None
    assert noisy.gained[50].tolist() == without.gained[50].tolist()  # before the first message


def test_epsilon_is_that_of_the_ledger():
    epsilons = [
        simulated.epsilon_of(Gaussian(noise, 2.0, "shares"), 200) for noise in (10.0, 20.0)
    ]
    assert 1.0 < epsilons[0] <= 1.1 and 0.45 < epsilons[1] <= 0.5
    assert simulated.epsilon_of(None, 200) is None


def test_settings_of_a_method_name_its_own():
    assert "pull=0.05" in study.settings_of("personal")
    assert study.settings_of("clip-0.5") != study.settings_of("clip-1.0")
    with pytest.raises(Mistake, match="did you mean 'personal'"):
        study.settings_of("persona")


# --- data ---


@examples(50)
@given(st.integers(2, 30), st.integers(0, 2**32))
def test_training_and_held_out_queries_are_disjoint(n, seed):
    queries = tuple(
        JudgedQuery(np.full((1, 2), i, np.float32), np.ones(1, np.int8), 1.0) for i in range(n)
    )
    training, held_out = halves(Device("d", 2, queries), seed)
    learned = {int(query.features[0, 0]) for query in training.queries}
    measured = set(held_out.features[:, 0].astype(int).tolist())
    assert not learned & measured and learned | measured == set(range(n))
    assert len(measured) == n // 2


def test_a_device_with_one_query_cannot_be_split():
    with pytest.raises(Mistake, match="has 1 queries, and 2 are needed"):
        halves(study_device("d", 1), 0)


def test_held_out_ndcg_is_that_of_the_single_lists():
    queries = [study_query("q", i, m=3 + i) for i in range(12)]
    none = JudgedQuery(np.zeros((0, len(NAMES)), np.float32), np.zeros(0, np.int8), 1.0)
    held_out = HeldOut.of([*queries[:5], none, *queries[5:]])
    expected = [
        dcg(each.labels[best_first(each.features[:, 2], 10, stream(1))]) / each.ideal
        for each in queries
    ]
    found = held_out.ndcg(held_out.features[:, 2], stream(0))
    assert found == pytest.approx(sum(expected) / 13)


def test_a_search_without_candidates_teaches_nothing():
    none = JudgedQuery(np.zeros((0, len(NAMES)), np.float32), np.zeros(0, np.int8), 1.0)
    bed = Bed("empty", (Device("a", 3, (none, none)),), ("a",))
    found = METHODS["personal"](study_run(bed))
    assert found.held_out[100].tolist() == [0.0] and found.gained[100].tolist() == [0.0]


@examples(50)
@given(st.integers(1, 20), st.integers(1, 12))
def test_every_part_of_a_device_has_queries(n, parts):
    device = Device("d", 3, tuple(study_query("q", i, m=2) for i in range(n)))
    found = dealt(device, parts)
    given_out = [id(query) for part in found for query in part.queries]
    assert len(found) == parts and all(part.queries for part in found)
    assert set(given_out) == {id(query) for query in device.queries}
    assert len(given_out) == max(n, parts)


def write_collection(folder, documents=None, queries=None, qrels=None):
    folder.mkdir(parents=True)
    about = documents or [
        {"id": "1", "title": "The locking of rows", "text": "How rows are locked in a table."},
        {"id": "2", "title": "Indexes", "text": "An index finds rows.", "keywords": ["tree"]},
        {"id": "3", "text": "Triggers run when rows change."},
        {"id": "4", "title": "Elsewhere", "text": "Nothing of this."},
    ]
    (folder / "documents.jsonl").write_text("".join(json.dumps(each) + "\n" for each in about))
    (folder / "queries.tsv").write_text(
        queries or '1\tlocking "rows in"\n2\ttree\n3\tnobody judged this\n4\trows: triggers\n'
    )
    (folder / "qrels.txt").write_text(qrels or "1 0 1 4\n1 0 4 2\n1 0 3 0\n2 0 2 1\n4 0 3 3\n")
    return folder


def test_a_bed_has_the_labels_of_its_collection(tmp_path):
    write_collection(tmp_path / "all" / "tiny")
    bed = load_bed("collections", tmp_path / "beds", tmp_path / "all", untold)
    (device,) = bed.devices
    assert (device.name, device.grades, len(device.queries)) == ("tiny", 5, 3)
    index = Index(tmp_path / "beds" / "collections" / "tiny.db")
    graded = [{"/1": 4, "/4": 2}, {"/2": 1}, {"/3": 3}]
    for query, text, grades in zip(
        device.queries, ["locking rows in", "tree", "rows triggers"], graded, strict=True
    ):
        found = search(index, parsed(text), study_data.NOW)
        assert query.labels.tolist() == [grades.get(each.path, 0) for each in found.documents]
        assert np.array_equal(query.features, found.features) and query.labels.any()
        # also those that are no candidates
        assert query.ideal == dcg(np.array(sorted(grades.values(), reverse=True)))
    assert 2 not in device.queries[0].labels  # /4 has no word of the query


def test_a_stored_bed_is_not_made_again(tmp_path, monkeypatch):
    write_collection(tmp_path / "all" / "tiny")
    load = partial(load_bed, "collections", tmp_path / "beds", tmp_path / "all", untold)
    first = load()
    monkeypatch.setattr(study_data, "_measured", None)
    assert load().content == first.content
    monkeypatch.undo()
    file = tmp_path / "beds" / "collections" / "tiny.npz"
    file.write_bytes(file.read_bytes()[:100])
    assert load().content == first.content


def test_a_bed_that_was_interrupted_is_the_same(tmp_path, monkeypatch):
    write_collection(tmp_path / "all" / "tiny")
    monkeypatch.setattr(study_data, "BATCH", 1)
    whole = load_bed("collections", tmp_path / "whole", tmp_path / "all", untold)
    calls = []

    def interrupted(what, done, total):
        calls.append(done)
        if len(calls) in (3, 6):
            raise KeyboardInterrupt

    load = partial(load_bed, "collections", tmp_path / "beds", tmp_path / "all")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            load(interrupted)
    assert load(interrupted).content == whole.content
    assert calls[3] == 2  # two documents had been stored


def test_a_split_collection_has_all_queries_once(tmp_path):
    write_collection(tmp_path / "all" / "tiny", queries="".join(f"{i}\trows\n" for i in range(9)),
                     qrels="".join(f"{i} 0 1 1\n" for i in range(9)))  # fmt: skip
    whole, split = (
        load_bed(name, tmp_path / "beds", tmp_path / "all", untold)
        for name in ("collections", "collections-split")
    )
    assert [device.name for device in split.devices] == [f"tiny-{i}" for i in range(1, 5)]
    assert [len(device.queries) for device in split.devices] == [3, 2, 2, 2]
    assert split.content != whole.content and split.devices[0].grades == 2


def test_unknown_beds_and_missing_collections_are_mistakes(tmp_path):
    with pytest.raises(Mistake, match="no test bed 'fife': did you mean 'five'"):
        load_bed("fife", tmp_path, None, untold)
    with pytest.raises(Mistake, match="no text collections in None"):
        load_bed("collections", tmp_path, None, untold)
    write_collection(tmp_path / "bad", qrels="1 0 1 9\n")
    with pytest.raises(Mistake, match=r"grades must be 0 .. 4, got 9"):
        study_corpora.collection(tmp_path / "bad")
    write_collection(tmp_path / "none", qrels="1 0 1 0\n")
    with pytest.raises(Mistake, match="no query with a relevant document"):
        study_corpora.collection(tmp_path / "none")


@examples(60)
@given(
    st.binary(max_size=80) | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["id", "title", "keywords", "text"]), inner, max_size=4
        ), max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"1\trows\n", b"", b"1 rows"]) | st.binary(max_size=20),
    st.sampled_from([b"1 0 1 2\n", b"1 0 1\n"]) | st.binary(max_size=20),
)  # fmt: skip
def test_any_bytes_are_a_collection_or_a_mistake(tmp_path_factory, documents, queries, qrels):
    folder = tmp_path_factory.mktemp("collection")
    for name, content in zip(
        ("documents.jsonl", "queries.tsv", "qrels.txt"), (documents, queries, qrels), strict=True
    ):
        (folder / name).write_bytes(content)
    try:
        corpus = study_corpora.collection(folder)
    except Mistake:
        return
    for read in corpus.documents.values():
        assert all(text.title for text in read())


def test_packages_are_found_by_their_synopsis_which_they_lack(tmp_path):
    lists = tmp_path / "lists"
    lists.mkdir()
    names = {"foo": "games", "foo-data": "games", "bar": "text", "odd": "zope"}
    (lists / "x_Packages").write_text(
        "\n".join(f"Package: {name}\nSection: {where}\n" for name, where in names.items())
    )
    (lists / "x_Translation-en").write_text(
        "Package: foo\nDescription-en: Game of stones\n Play it.\n .\n Alone.\n\n"
        "Package: foo-data\nDescription-en: Game of stones\n Its files.\n\n"
        "Package: bar\nDescription-en: A synopsis only\n\n"
        "Package: odd\nDescription-en: Of a small section\n Nobody reads it.\n"
    )
    known = study_corpora.descriptions_of_packages(tmp_path, untold)
    assert known["games"]["foo"] == ("Game of stones", "Play it.\n\nAlone.")
    assert known["text"] == {} and "zope" not in known
    corpus = study_corpora.section("games", lambda: known)
    assert corpus.queries == [("Game of stones", {"/games/foo": 1, "/games/foo-data": 1})]
    (text,) = corpus.documents["/games/foo"]()
    assert text.title == "foo" and "stones" not in text.body and corpus.grades == 2


# --- the script ---


def asked_for(tmp_path, out, **more):
    known = {"beds": ["collections"], "out": tmp_path / out, "seeds": 1, "jobs": 1, "check": False}
    places = {"cache": tmp_path / "beds", "collections": tmp_path / "all"}
    return Namespace(**{**known, **places, "only": "bm25,personal,local,newcomer", **more})


def two_collections(tmp_path):
    for name in ("one", "two"):
        write_collection(
            tmp_path / "all" / name, queries="1\trows\n2\tindex\n3\ttriggers rows\n",
            qrels="1 0 1 1\n2 0 2 1\n3 0 3 1\n",
        )  # fmt: skip


def test_a_resumed_study_is_an_uninterrupted_one(tmp_path, monkeypatch, capsys):
    two_collections(tmp_path)
    assert script.study(asked_for(tmp_path, "whole"))
    make, made = script.make, []

    def interrupted(job, bed, out):
        made.append(job)
        if len(made) == 4:
            raise KeyboardInterrupt
        make(job, bed, out)

    monkeypatch.setattr(script, "options", lambda: asked_for(tmp_path, "resumed"))
    monkeypatch.setattr(script, "make", interrupted)
    assert script.main() == 130
    assert "goes on from here" in capsys.readouterr().err
    files = sorted((tmp_path / "resumed").rglob("*.json"))
    assert len(files) == 3
    files[0].write_text("{")  # half a file is made again
    assert script.main() == 0
    assert len(made) == 4 + 8  # ten runs, two of which were there
    found = [
        {
            str(file.relative_to(out)): file.read_bytes()
            for file in out.rglob("*")
            if file.is_file()
        }
        for out in (tmp_path / "whole", tmp_path / "resumed")
    ]
    assert found[0] == found[1] and len(found[0]) == 12  # with tables.md and results.csv
    assert script.main() == 0 and len(made) == 12
    assert "| informational | personal |" in capsys.readouterr().out


def test_results_of_other_settings_are_made_again(tmp_path, monkeypatch):
    two_collections(tmp_path)
    job = script.Job("collections", "local", "perfect", 0)
    bed = load_bed("collections", tmp_path / "beds", tmp_path / "all", untold)
    script.make(job, bed, tmp_path)
    assert script.stored(job, tmp_path, bed.content) is not None
    assert script.stored(job, tmp_path, "other documents") is None
    monkeypatch.setattr(study, "VERSION", 99)
    assert script.stored(job, tmp_path, bed.content) is None


def test_workers_compute_what_this_process_does(tmp_path):
    two_collections(tmp_path)
    for out, jobs in (("one", 1), ("many", 2)):
        assert script.study(asked_for(tmp_path, out, jobs=jobs, only="bm25"))
    assert (tmp_path / "one/results.csv").read_text() == (
        tmp_path / "many/results.csv"
    ).read_text()


def test_mistakes_of_the_command_are_told(tmp_path, monkeypatch, capsys):
    for more, told in (
        ({"only": "bm26"}, "no method 'bm26'"),
        ({"seeds": 0}, "--seeds must be 1 or more, got 0"),
        ({"beds": ["six"]}, "no test bed 'six'"),
    ):
        monkeypatch.setattr(script, "options", partial(asked_for, tmp_path, "out", **more))
        assert script.main() == 2
        assert told in capsys.readouterr().err


def test_a_claim_that_fails_fails_the_check():
    """Made-up results: personal is above BM25 by .06, and its lists by .05."""
    outcomes = {}
    for method, level in (("bm25", 0.7), ("local", 0.74), ("personal", 0.76), ("newcomer", 0.755),
                          ("private-200-noise-10", 0.84)):  # fmt: skip
        for clicks in CLICKS if method in study.FROM_CLICKS else ("none",):
            outcomes[script.Job("five", method, clicks, 0)] = {
                "devices": ["a", "b"], "epsilon": None,
                "held_out": {"0": [level] * 2} if method == "bm25" else {
                    str(n): [level - 0.01, level + 0.01] for n in AFTER
                },
                "gained": {str(n): [0.02, 0.08] for n in AFTER},
            }  # fmt: skip
    results = script.Results(outcomes)
    found = {claim.text: claim for claim in script.claims(results, "five")}
    failing = [text for text, claim in found.items() if not claim.holds]
    assert failing == [
        "five, navigational: personal - BM25 after 100",
        "five, informational: personal - BM25 after 100",
    ]
    assert found["five, navigational: personal - local after 20"].value == pytest.approx(0.02)
    assert script.claims(results, "tuning") == []
    assert script.gain(results.values("five", "personal", "perfect", "gained", 10)) == (
        "+0.050 / +0.020 / +0.020"
    )


# --- manuals ---


def test_nobody_shares_manuals_with_the_devices_for_tuning():
    tuning = {package for packages in TUNING.values() for package in packages}
    others = {package for table in (PEOPLE, DOCS) for ps in table.values() for package in ps}
    assert not tuning & others
    assert len(TUNING) >= 8 and len(DOCS) == 20 and len(PEOPLE) == 6


def test_the_newcomer_has_manuals_of_her_own():
    others = [PEOPLE[person] for person in PEOPLE if person != NEWCOMER]
    assert not set(PEOPLE[NEWCOMER]) & {package for packages in others for package in packages}
