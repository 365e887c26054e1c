"""A node's side of the rounds: what it answers, and everything that it does not."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from small_federation import (
    FEATURES,
    PARAMS,
    Small,
    agreed,
    answered,
    ask_of,
    learned,
    participant_of,
    refused,
)

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.deployment.protocol.frames import Frame, Kind, read_refusal
from foltr.deployment.protocol.participant import Participant, in_words
from foltr.deployment.protocol.records import Records
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import Simulated
from foltr.simulation.runs.setup import population_of

NOISY = Laplace(epsilon=1.0, clip=10.0)


def test_clients_learn_from_the_model_of_the_ask():
    agreement = agreed()
    found = learned(participant_of(agreement), ask_of(agreement, clients=(0, 2)))
    assert found == {0: ([1.5, 0.0, 3.0], 2.0), 2: ([3.5, 2.0, 5.0], 2.0)}


def test_a_round_that_is_asked_again_gets_the_same_bytes_and_costs_nothing(tmp_path):
    """Even with noise that nobody can repeat, by other subsets, and after a restart."""
    agreement, path = agreed(privacy=NOISY, rounds=2), tmp_path / "node.db"
    participant = participant_of(agreement, path=path)
    ask = ask_of(agreement)
    first = participant.answer(ask.to_bytes())
    assert participant.answer(ask.to_bytes()) == first
    numbers = learned(participant, ask)
    for clients in ((0, 1, 2), (1,), (0, 2)):
        again = learned(participant_of(agreement, path=path), ask_of(agreement, clients=clients))
        assert again == {client: numbers[client] for client in clients}
    assert {r.spent for r in participant.records.of(range(3)).values()} == {1}
    assert learned(participant, ask_of(agreement, t=1)) != numbers


def test_two_asks_at_once_get_one_answer():
    agreement = agreed(privacy=NOISY)
    participant, ask, found = participant_of(agreement), ask_of(agreement).to_bytes(), []
    threads = [
        threading.Thread(target=lambda: found.append(participant.answer(ask))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16 and len(set(found)) == 1
    assert {r.spent for r in participant.records.of(range(3)).values()} == {1}


def test_two_processes_with_one_file_give_one_answer(tmp_path):
    """The second has read before the first one stored: it refuses, and then gives the same."""
    agreement, path = agreed(privacy=NOISY), tmp_path / "node.db"
    engine = Small(privacy=NOISY)
    one, two = participant_of(agreement, path=path), participant_of(agreement, engine, path=path)
    ask, collect, first = ask_of(agreement), engine.collect, {}

    def overtaken(*given):
        first.update(learned(one, ask))
        engine.collect = collect
        return collect(*given)

    engine.collect = overtaken
    assert refused(two, ask) == "disk"
    assert learned(two, ask) == first


def test_another_model_in_a_round_starts_from_the_memory_before_it_and_costs_budget():
    """The server crashed before it stored its model, and made another one."""
    agreement, other = agreed(rounds=3), PARAMS + np.float32(1)
    participant = participant_of(agreement, Small(kept=2))

    def ones(found):
        return {client: row[0] - client - 1 for client, (row, _) in found.items()}

    assert ones(learned(participant, ask_of(agreement))) == dict.fromkeys(range(3), 0.5)
    assert ones(learned(participant, ask_of(agreement, t=1))) == dict.fromkeys(range(3), 2.5)
    again = learned(participant, ask_of(agreement, t=1, params=other))
    assert ones(again) == dict.fromkeys(range(3), 3.5)  # 2 of memory, not 4
    assert refused(participant, ask_of(agreement, t=2)) == "budget"
    assert learned(participant, ask_of(agreement, t=1, params=other)) == again
    # and back to the first model costs budget, too: its answer would have fresh noise
    assert refused(participant, ask_of(agreement, t=1)) == "budget"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"federation": b"x" * 16}, "agreement"),
        ({"features": b"x" * 32}, "features"),
        ({"n": 4}, "n"),
        ({"n": 10**6}, "n"),
        ({"clients": ()}, "clients"),
        ({"clients": (1, 3)}, "clients"),
        ({"clients": (2**32 - 1,)}, "clients"),
        ({"model": b"x" * 32}, "model"),
        ({"params": PARAMS[:2]}, "malformed"),
        ({"params": PARAMS * np.float32(np.nan)}, "malformed"),
        ({"payload": b""}, "malformed"),
        ({"how": (3, -1)}, "how"),
        ({"how": (2**32 - 1, -1)}, "how"),
        ({"how": (0, 0)}, "norms"),
        ({"kind": Kind.OPEN}, "channel"),
        ({"kind": Kind.SUM}, "channel"),
        ({"kind": Kind.LEARNED}, "kind"),
        ({"kind": Kind.REFUSED}, "kind"),
    ],
)
def test_what_was_not_agreed_is_refused_and_changes_nothing(changes, code):
    agreement, told = agreed(history=1), []
    participant = participant_of(agreement, told=told)
    assert refused(participant, ask_of(agreement, **changes)) == code
    assert participant.records.of(range(3)) == {} and told


def test_older_rounds_are_over():
    agreement = agreed()
    participant = participant_of(agreement)
    learned(participant, ask_of(agreement, t=5, clients=(0, 1)))
    assert refused(participant, ask_of(agreement, t=4, clients=(0, 1))) == "round"
    assert learned(participant, ask_of(agreement, t=4)).keys() == {2}


def test_a_client_answers_in_as_many_rounds_as_agreed(tmp_path):
    agreement, path = agreed(rounds=2), tmp_path / "node.db"
    for t in (0, 1):
        learned(participant_of(agreement, path=path), ask_of(agreement, t=t, clients=(0, 1)))
    participant = participant_of(agreement, path=path)
    assert learned(participant, ask_of(agreement, t=2)).keys() == {2}
    assert refused(participant, ask_of(agreement, t=3, clients=(0,))) == "budget"


def test_where_a_channel_is_agreed_nothing_is_sent_plainly():
    agreement = agreed(channel=SecureSum(), fewest=2)
    participant = participant_of(agreement)
    assert refused(participant, ask_of(agreement)) == "channel"
    assert participant.records.of(range(3)) == {}


@pytest.mark.parametrize("how", [(1, -1), (2, -1), (0, 0), (0, 7)])
def test_rounds_of_unlearning_are_refused_where_there_is_noise(how):
    """Shares of the noise are made for equal weights; a rescaled message has another noise."""
    agreement = agreed(privacy=Gaussian(noise=1.0, clip=1.0, where="shares"), history=1)
    participant = participant_of(agreement)
    learned(participant, ask_of(agreement))
    assert refused(participant, ask_of(agreement, t=1, how=how)) == "how"


def test_rounds_of_unlearning_have_the_norm_of_a_stored_round():
    agreement = agreed(history=2)
    participant = participant_of(agreement)
    first = learned(participant, ask_of(agreement))
    learned(participant, ask_of(agreement, t=1))
    assert refused(participant, ask_of(agreement, t=2, how=(2, 1))) == "norms"
    again = learned(participant, ask_of(agreement, t=2, params=-PARAMS, how=(2, 0)))
    for client, (row, _) in again.items():
        np.testing.assert_allclose(
            np.linalg.norm(row), np.linalg.norm(first[client][0]), rtol=1e-6
        )


def test_engines_for_any_number_of_searches_are_not_kept():
    agreement, made = agreed(learner=PDGD(sessions=50), sessions=50, rounds=1000), []
    participant = participant_of(agreement)

    def engine_for(sessions):
        made.append(sessions)
        return Small(weight=max(1, sessions))

    participant.engine_for = engine_for
    for sessions in (0, 1, 2, 3, 0, 3):
        learned(participant, ask_of(agreement, t=len(made), how=(sessions, -1)))
    assert made == [0, 1, 2, 3] and participant._engines.keys() == {0, 3}


def test_a_client_that_raises_is_left_out_and_the_server_is_not_told_what_it_raised():
    agreement, told, engine = agreed(), [], Small(kept=2, fails={1})
    participant = participant_of(agreement, engine, told=told)
    expected = learned(participant_of(agreement, Small(kept=2)), ask_of(agreement))
    found = learned(participant, ask_of(agreement))
    assert found == {0: expected[0], 2: expected[2]}
    assert any("secret" in text for text in told)
    answer = participant.answer(ask_of(agreement, t=1, clients=(1,)).to_bytes())
    assert read_refusal(Frame.from_bytes(answer).payload)[0] == "failed"
    assert b"secret" not in answer and b"42" not in answer
    assert 1 not in participant.records.of(range(3))


@pytest.mark.parametrize("error", [KeyError("secret"), MemoryError("secret"), Mistake("secret")])
def test_no_error_of_the_node_reaches_the_server(error):
    agreement, told = agreed(), []
    participant = participant_of(agreement, told=told)

    def raising(*_):
        raise error

    for name in ("engine_for", "records"):
        broken = replace(participant, _engines={})
        if name == "records":
            calls = dict.fromkeys(("about", "of", "keep"), raising)
            broken.records = type("Broken", (), calls)()
        else:
            broken.engine_for = raising
        answer = broken.answer(ask_of(agreement).to_bytes())
        assert Frame.from_bytes(answer).kind == Kind.REFUSED and b"secret" not in answer
    assert sum("secret" in text for text in told) == 2


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.0, np.nan, np.inf])
def test_a_message_of_another_weight_than_agreed_is_not_sent(weight):
    """The secure sum of a round could not be checked by anybody else."""
    agreement = agreed(privacy=Gaussian(noise=1.0, clip=1.0, where="shares"))
    engine = Small(weight=weight, privacy=agreement.privacy)
    assert refused(participant_of(agreement, engine), ask_of(agreement)) == "failed"


def test_a_message_of_eight_bytes_is_repeated_as_it_was_sent(tmp_path):
    agreement, path = agreed(), tmp_path / "node.db"
    engine, params = Small(kind=np.float64), PARAMS + np.float32(0.1)
    first = learned(participant_of(agreement, engine, path=path), ask_of(agreement, params=params))
    again = learned(participant_of(agreement, path=path), ask_of(agreement, params=params))
    assert again == first and np.allclose(again[0][0], params + 1)


@pytest.mark.parametrize(
    "update",
    [np.array([1e300]), np.array([np.nan]), np.array([1.0 + 1j]), np.array([1]), np.array(["a"])],
)
def test_what_is_no_message(update):
    with pytest.raises(Mistake):
        in_words(update)


def test_a_full_disk_is_told_and_no_answer_is_given(tmp_path):
    agreement = agreed(privacy=NOISY)
    participant = participant_of(
        agreement, Small(300, kept=50, privacy=NOISY), range(300), tmp_path / "db"
    )
    agreement = participant.agreement
    (pages,) = participant.records._db.execute("pragma page_count").fetchone()
    participant.records._db.execute(f"pragma max_page_count = {pages + 1}")
    participant.agreement = agreement = agreed(privacy=NOISY, asked=300)
    ask = ask_of(agreement, clients=range(300))
    assert refused(participant, ask) == "disk" and participant.records.of(range(300)) == {}
    participant.records._db.execute("pragma max_page_count = 100000")
    assert len(learned(participant, ask)) == 300


def test_updates_that_fit_in_no_frame_are_not_learned(monkeypatch):
    agreement = agreed()
    participant = participant_of(agreement)
    monkeypatch.setattr("foltr.deployment.protocol.participant.LARGEST", 30)
    assert refused(participant, ask_of(agreement)) == "size"
    assert participant.records.of(range(3)) == {}


def test_a_hello_compares_agreements():
    agreement = agreed()
    participant = participant_of(agreement)
    hello = ask_of(agreement, Kind.HELLO, payload=agreement.text.encode())
    assert answered(participant, hello).kind == Kind.WELCOME
    other = agreed(rounds=9)
    answer = answered(participant, ask_of(other, Kind.HELLO, payload=other.text.encode()))
    assert read_refusal(answer.payload) == (
        "agreement",
        "rounds is 4 in the node's file, 9 in the server's: write the same in both files",
    )
    assert refused(participant, ask_of(other, Kind.HELLO, payload=b"\xff" * 99)) == "agreement"
    assert refused(participant, ask_of(agreement, Kind.HELLO, clients=(0, 9))) == "clients"


def small_experiment():
    return Experiment(
        clients=4,
        rounds=6,
        learner=Personal(learner=PDGD(sessions=2)),
        data="Synthetic(queries=20)",
        seed=3,
    )


def test_devices_that_keep_rankers_of_their_own_go_on_after_a_crash(tmp_path):
    """A node that is restarted before every round, asked twice in each, gives what one gives that
    never stopped."""
    e = small_experiment()
    data = e.data.load("train")
    population, threads = population_of(e, data), Threads(1)
    start = e.ranker.init(data.width, stream(1)).astype(np.float32)
    names = tuple(f"{FEATURES[0]} {i}" for i in range(data.width))
    agreement = agreed(learner=e.learner, features=names, asked=4, rounds=7)  # one more

    def participant(path):
        def engine_for(sessions):
            return Simulated()(e, population, start, threads, 3)

        return Participant(agreement, range(4), engine_for, Records(path, agreement.id))

    steady, path = participant(None), tmp_path / "node.db"
    params, kept = start, []
    for t in range(6):
        ask = ask_of(agreement, clients=range(4), params=params, t=t)
        other = ask_of(agreement, clients=range(4), params=params * np.float32(2), t=t)
        expected = learned(steady, ask)
        if t == 2:  # a model that the server lost in a crash
            learned(participant(path), other)
        for clients in ((1, 3), (0, 1, 2, 3)):
            found = learned(participant(path), replace(ask, clients=clients))
            assert found == {client: expected[client] for client in clients}
        kept.append(participant(path).records.of((2,))[2].after)
        params = params + np.mean([row for row, _ in expected.values()], axis=0).astype(np.float32)
    assert len({memory.tobytes() for memory in kept}) > 1


def test_no_client_searches_more_often_than_in_training():
    """Searches of a round of unlearning are a part of the learner's: of a client with more
    searches than others, they are scaled alike."""
    agreement = agreed(learner=PDGD(sessions=5), sessions=7)
    participant = participant_of(agreement, Small(weight=7.0))
    for sessions in (6, 7, 8):
        assert refused(participant, ask_of(agreement, how=(sessions, -1))) == "how"
    agreement.check_weight(7.0, 5)
    with pytest.raises(Mistake, match="weight"):
        agreement.check_weight(7.0, 4)
    with pytest.raises(Mistake, match="weight"):
        agreement.check_weight(8.0, 7)
