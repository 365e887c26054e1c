"""Devices with an index and a log of their own, under faults: killed, away, leaving, at a gateway
that has changed."""

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from device_processes import PageProcess, device_command, killed_at, no_gateway
from own_devices import SESSIONS, Person, Replaying, all_answer, begin, federation

from foltr.components.aggregators.mean import Mean
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Cohort
from foltr.core.federation import Client, Delivery, Server, federate
from foltr.core.seeds import Stream, stream
from foltr.core.stepwise import ReplayedUser
from foltr.deployment.gateway.client import Excluded, Unavailable
from foltr.deployment.gateway.device_folder import JOINED, KEY
from foltr.deployment.keys.keys import make_server
from foltr.device.membership import NOTHING, LogEngine
from foltr.device.searching import NAMES

pytestmark = pytest.mark.usefixtures("modules")
SHARES = {
    "privacy": "Gaussian(noise=0.3, clip=1.0, where='shares')", "channel": "SecureSum()",
    "fewest": 5,
}  # fmt: skip


@pytest.fixture
def alone(tmp_path):
    """A person whose device is in no federation."""

    class Nowhere:
        folder = tmp_path

    return Person(Nowhere, 0)


def federation_of(folder, devices, **agreed):
    """A federation with more rounds than the tests need: a round that begins while the devices of
    the last one disconnect has no answers."""
    return federation(folder, devices, grace=0.5, **{"rounds": 1000, **agreed})


def patient(here):
    """Let the gateway wait for a device that has disconnected."""
    settings = here.folder / "gateway-0.toml"
    settings.write_text(re.sub(r"(?m)^grace = .*$", "grace = 30.0", settings.read_text()))
    return here


def url_of(here):
    return f"https://localhost:{here.ports[0]}"


def ca_of(here):
    return str(here.folder / "gateway-tls" / "ca.pem")


def hurry(person):
    """Let the gateway hold this person's requests for seconds only."""
    person.running.membership.gateway.wait = 3
    return person


class TakingPart:
    """Threads in which devices take part as their pages do (`with`): they send what is due. With
    `searching`, they search whenever nothing is. With `messages`, they answer whatever is asked,
    up to so many messages, and then finish."""

    def __init__(self, people, searching=False, messages=0):
        self.stop, self.searching, self.messages = threading.Event(), searching, messages
        self.threads = [threading.Thread(target=self._run, args=(each,)) for each in people]
        self.people = people

    def _run(self, person):
        membership = hurry(person).running.membership
        membership.soon_seconds = 0.2
        if not self.searching and not self.messages:
            membership.run(self.stop)
        while not self.stop.is_set() and not membership.over:
            if self.searching and not membership.due():
                person.search(SESSIONS, 10_000 + 10 * len(membership._messages()))
                time.sleep(0.5)
            enough = self.messages and len(membership._messages()) >= self.messages
            if enough and not membership.finishing():
                return
            try:
                membership.once(only_due=self.searching)
            except Unavailable:
                time.sleep(0.2)
            except Excluded:
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for person in self.people:
            if person.running.membership is not None:
                person.running.membership.wake.set()
        for thread in self.threads:
            thread.join(60)


def sent_in(person, t):
    """The searches in the message of a round."""
    return [s.session for s in reversed(person.running.log.last(1000)) if s.sent == t]


class ReplayingSome(Replaying):
    """An engine of a simulation whose clients replay the logs of devices, with their noise. Who
    has searched less often than agreed adds empty searches, where weights must be equal."""

    def collect(self, ask, clients):
        agreed, updates = self.agreed, []
        for id, person in enumerate(self.people):
            if ask.t not in [t for t, _ in person.running.log.messages()]:
                continue
            searches = sent_in(person, ask.t)
            if agreed.privacy is not None and agreed.privacy.needs_equal_weights:
                searches += [NOTHING] * (agreed.sessions - len(searches))
            parts = agreed.device_learner, agreed.ranker, agreed.privacy, Stream(0)
            client = Client(id, *parts, noise_of(id) if agreed.privacy else Stream(0))
            update, self.memory[id] = client.step(ask, self.memory[id], ReplayedUser(searches))
            if id in clients:
                updates.append(update)
        got = Cohort.stack(updates) if updates else Cohort.empty(len(ask.params))
        return Answers(clients, got, None)


def noise_of(client):
    return stream(77, "noise", client)


def simulated_rounds(here, agreed, people):
    """The parameters of a simulation of the rounds that the server has made, and what is kept.
    A message that is in a device's log has arrived if the server counted it."""
    server = Server(agreed.learner, Mean(), SGD())
    state = server.init(agreed.ranker.init(len(NAMES), stream(0)))
    engine = ReplayingSome(agreed, people, None)
    rounds, sent = here.rounds(), [dict(each.running.log.messages()) for each in people]

    def who(t):
        found = [id for id, messages in enumerate(sent) if t in messages]
        enough = rounds[t]["answered"] >= agreed.fewest
        assert not enough or rounds[t]["answered"] == len(found), (t, found, rounds[t])
        return np.array(found if enough else [], np.int64)

    delivery = Delivery(channel=agreed.channel)
    given = len(rounds), who, 0, lambda *_: None, delivery, agreed.asked
    end = federate(server, engine, state, *given)
    return end.params, engine.memory, len(rounds)


def full_rounds(here, many):
    """Wait for rounds that changed the model."""
    here.wait(lambda: len(answered_in(here)) >= many, 60, f"{many} rounds with answers")


def answered_in(here):
    """The number of answers, of the rounds that had any."""
    return [about["answered"] for about in here.rounds() if about["answered"]]


def with_known_noise(person):
    """Draw a device's noise where a simulation can draw it as well."""
    member = person.running.membership
    ranker, noise = person.running.service.ranker, lambda: noise_of(member.client)
    member.device.engine_for = lambda sessions: LogEngine(ranker, member.agreed, noise)
    return person


# --- privacy ---


@pytest.mark.loopback
def test_devices_behind_a_secure_sum_learn_what_a_simulation_learns_with_their_noise(tmp_path):
    """Some have searched less often than agreed, and one not at all."""
    with federation_of(tmp_path, 5, **SHARES) as here:
        begin(here)
        people = [with_known_noise(Person(here, i).join(days=1e-9)) for i in range(5)]
        agreed = people[0].running.membership.agreed
        for t, searches in enumerate([(4, 2, 1, 0, 4), (0, 4, 7, 1, 0)]):
            for person, many in zip(people, searches, strict=True):
                person.search(many, 10 * t)
            with TakingPart(people, messages=t + 1):
                full_rounds(here, t + 1)
        assert answered_in(here) == [5, 5], here.everything()
        params, memory, t = simulated_rounds(here, agreed, people)
        assert np.array_equal(here.model(t), params), here.everything()
        for person, kept in zip(people, memory, strict=True):
            assert person.running.service.ranker.epoch.memory.tobytes() == kept.tobytes()
            assert len(person.running.log.messages()) == 2
        counts = [len(sent_in(people[2], t)) for t, _ in people[2].running.log.messages()]
        assert counts == [1, 4] and people[2].running.membership.due()  # three are left
        assert np.abs(params[1:]).max() > 0.01


@pytest.mark.faults
def test_pages_stay_connected_until_a_secure_sum_is_over(tmp_path):
    """As their pages do: a device that has sent its keys has nothing more that is due."""
    with federation_of(tmp_path, 5, **SHARES) as here:
        begin(here)
        people = [Person(here, i).join() for i in range(5)]
        for t in range(2):
            for person in people:
                person.search(SESSIONS, 10 * t)
            with TakingPart(people):
                full_rounds(here, t + 1)
                members = [person.running.membership for person in people]
                here.wait(lambda m=members: not any(each.finishing() for each in m), 30, "end")
        assert answered_in(here) == [5, 5], here.everything()
        assert all(len(person.running.log.messages()) == 2 for person in people)
        assert not np.array_equal(here.model(), here.model(1))


@pytest.mark.faults
def test_a_spent_budget_stops_one_device_and_not_the_others(tmp_path):
    agreed = {"privacy": "Laplace(epsilon=1.0, clip=1.0)", "fewest": 1, "asked": 2}
    with federation_of(tmp_path, 2, **agreed) as here:
        begin(here)
        careful = Person(here, 0).join(epsilon=1.5)
        other = Person(here, 1).join(epsilon=100.0)
        assert careful.running.membership.spent.within_budget == 1
        for t in range(2):
            careful.search(SESSIONS, 10 * t)
            other.search(SESSIONS, 10 * t)
            with TakingPart([careful, other]):
                here.wait(lambda n=t + 1: len(other.running.log.messages()) == n, 60, "message")
                full_rounds(here, t + 1)
        assert len(careful.running.log.messages()) == 1
        text = careful.running.status()["federation"]["budget"]["text"]
        assert "The budget is spent (1 of 1 messages in 365 days)" in text
        assert len(sent_in(careful, None)) == SESSIONS
        careful.running.membership._refreshed = -1e9
        careful.running.membership.refresh()
        assert careful.running.service.ranker.epoch.round >= 1  # models still come


# --- killed ---


@pytest.mark.faults
def test_a_device_that_is_killed_at_any_moment_of_an_answer_sends_each_search_once(tmp_path):
    """The result is that of a simulation of the logs: nothing is lost, nothing is sent twice."""
    with federation_of(tmp_path, 2) as here:
        begin(patient(here))
        people = [Person(here, i).join() for i in range(2)]
        first, agreed = people[0], people[0].running.membership.agreed
        moments = "learned", "stored", "noted", "sent"
        for t, when in enumerate(moments):
            for person in people:
                person.search(SESSIONS, 10 * t)
            with TakingPart([people[1]]):
                killed_at(first.home, when)
                first.run()
                known = first.running.membership._record()
                assert first.running.membership.due() == (when == "learned")
                assert first.running.membership.finishing() == (when != "learned")
                with TakingPart([first]):
                    full_rounds(here, t + 1)
                    here.wait(lambda: not first.running.membership.finishing(), 30, "arrival")
            now = first.running.membership._record()
            if when != "learned":
                assert known.payload.tobytes() == now.payload.tobytes(), when
            assert [len(person.running.log.messages()) for person in people] == [t + 1] * 2, when
        assert answered_in(here) == [2] * 4, here.everything()
        params, memory, t = simulated_rounds(here, agreed, people)
        assert np.array_equal(here.model(t), params), here.everything()
        for person, kept in zip(people, memory, strict=True):
            assert person.running.service.ranker.epoch.memory.tobytes() == kept.tobytes()
            log = list(reversed(person.running.log.last(1000)))
            assert [search.id for search in log] == list(range(1, 17))
            rounds = [t for t, _ in person.running.log.messages()]
            assert [search.sent for search in log] == np.repeat(rounds, 4).tolist()  # in order


@pytest.mark.loopback
def test_a_page_that_is_killed_has_every_click_that_it_confirmed(alone):
    confirmed, texts = [], ["apple pear", "plum fig", "grape melon", "lemon berry"]
    for attempt in range(3):
        with PageProcess(alone.home) as page:
            timer = threading.Timer(0.3 + 0.17 * attempt, page.kill)
            for i in range(1000):
                try:
                    confirmed.append(page.search_and_open(texts[i % 4], i % 3))
                except (OSError, ValueError):
                    break  # it was killed
                if i == 0:
                    timer.start()
            timer.join()
        assert page.process.returncode == -signal.SIGKILL
    db = sqlite3.connect(alone.home.index_file)
    assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
    rows = db.execute("select search, document from opened order by rowid").fetchall()
    db.close()
    opened = [document for _, document in rows]
    assert len(confirmed) > 3
    at = iter(opened)
    assert all(each in at for each in confirmed)  # in order; one more may be there each time
    assert len(opened) <= len(confirmed) + 3
    alone.run()
    live = alone.running.service.ranker.weights.tobytes()
    for number, document in rows:  # what was opened is a click of its search
        search = alone.running.log.one(number)
        assert document in search.documents[search.ranking][search.clicks]
    assert alone.run().running.service.ranker.weights.tobytes() == live


# --- leaving ---


@pytest.mark.faults
def test_a_device_is_forgotten_by_command_and_joins_again(tmp_path):
    """Its records and norms are deleted, then its key; its ranker stays."""
    with federation_of(tmp_path, 4, fewest=1, asked=4, history=1) as here:
        begin(here)
        people = [Person(here, i).join() for i in range(2)]
        for t in range(2):
            for person in people:
                person.search(SESSIONS, 10 * t)
            all_answer(people)
            here.wait_round(t + 1)
        person, other = people
        person.search(2, 20)
        weights = person.running.service.ranker.weights.tobytes()
        with TakingPart([other], searching=True):
            text = device_command(person.home, "leave", "--forget", "--wait", "60")
        assert "the server has forgotten this device; its key is deleted" in text, text
        assert not (person.home.folder / KEY).exists() and person.home.federation.joined is None
        here.wait_logged("server", "forgetting 1 device", 60)
        db = sqlite3.connect(person.home.index_file)
        for table in ("client", "norm"):
            assert db.execute(f"select count(*) from {table}").fetchone() == (0,)
        db.close()
        person.run()
        assert person.running.service.ranker.weights.tobytes() == weights
        assert len(person.running.log.messages()) == 2
        assert "has not joined" in device_command(person.home, "leave", code=2)
        person.search(1, 30)
        invitation = here.invite(0, 1)[0]
        options = "--invitation", invitation, "--ca", ca_of(here), "--yes"
        text = device_command(person.home, "join", url_of(here), *options)
        assert "joined: this device is client 2" in text
        person.run()
        member = person.running.membership
        assert member.spent.ever == 2 and not member.leaving
        person.search(SESSIONS, 40)
        hurry(person).answer()
        assert member.spent.ever == 3


@pytest.mark.faults
def test_a_wish_to_be_forgotten_is_stored_without_a_gateway_and_repeated_by_the_page(tmp_path):
    with federation_of(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        people = [Person(here, i).join() for i in range(2)]
        for person in people:
            person.search(SESSIONS)
        all_answer(people)
        person, other = people
        here.kill("gateway-0")
        for _ in range(2):
            text = device_command(person.home, "leave", "--forget", "--wait", "0")
            assert "is stored, and not confirmed yet" in text and url_of(here) in text
            assert "run the search page, or this command again" in text
        assert "not confirmed yet" in device_command(person.home, "status")
        with PageProcess(person.home) as page:  # it starts and searches
            assert page.search_and_open("apple pear")
            assert "not confirmed yet" in page.ask("GET", "status")["federation"]["pending"]
            here.start("gateway-0")
            here.wait_logged("gateway-0", "devices connect to")
            with TakingPart([other], searching=True):
                here.wait(lambda: person.home.federation.joined is None, 90, "the notice")
                alone = lambda: page.ask("GET", "status")["federation"] is None  # noqa: E731
                here.wait(alone, 30, "the page alone")
            assert page.search_and_open("plum fig")
        assert "has forgotten this device" in page.log
        assert person.run().running.membership is None
        assert not (person.home.folder / KEY).exists()


@pytest.mark.faults
@pytest.mark.parametrize("when", ["records", "told", "key", "alone"])
def test_a_device_that_is_killed_while_it_is_forgotten_finishes(tmp_path, when):
    with federation_of(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        people = [Person(here, i).join() for i in range(2)]
        for person in people:
            person.search(SESSIONS)
        all_answer(people)
        here.wait_round(1)
        person, other = people
        weights = person.running.service.ranker.weights.tobytes()
        with TakingPart([other], searching=True):
            killed_at(person.home, when, "forget")
            person.run()
            assert person.running.service.ranker.weights.tobytes() == weights
            if person.running.membership is not None:
                assert person.running.wait_forgotten(60.0), person.told
        assert person.running.membership is None
        assert person.running.service.ranker.weights.tobytes() == weights
        assert not (person.home.folder / KEY).exists()


@pytest.mark.faults
def test_a_device_leaves_one_federation_for_another(tmp_path):
    with (
        federation_of(tmp_path / "a", 2, fewest=1, asked=2) as one,
        federation_of(tmp_path / "b", 3, fewest=1, asked=3) as two,
    ):
        begin(one)
        begin(two)
        person = Person(one, 0).join()
        for t in range(2):
            person.search(SESSIONS, 10 * t)
            person.answer()
            one.wait_round(t + 1)
        person.search(2, 20)
        weights = person.running.service.ranker.weights.tobytes()
        assert "takes part no more" in device_command(person.home, "leave")
        assert person.run().running.membership is None
        assert person.running.service.ranker.weights.tobytes() == weights
        here = Person(two, 0, person.home.folder).join()
        assert here.running.membership.spent.ever == 0
        here.search(SESSIONS, 30)
        here.answer()
        two.wait_round(1)
        assert [s.sent for s in here.running.log.last(SESSIONS)] == [0] * SESSIONS
        assert len(here.running.log.messages()) == 3
        two.kill("gateway-0")
        text = device_command(here.home, "leave")
        assert "The gateway could not be told" in text
        text = device_command(here.home, "leave", code=2)
        assert "has not joined" in text
        again = one.invite(0, 1)[0]
        options = "--invitation", again, "--ca", ca_of(one), "--yes"
        assert "is client 1" in device_command(here.home, "join", url_of(one), *options)
        assert person.run().running.membership.spent.ever == 2  # its budget stays spent


# --- a server that is another, or none ---


def certificates_of(folder, days=(0, 30)):
    """A folder with the certificate of a server at localhost."""
    made = datetime.now(UTC) + timedelta(days=days[0])
    make_server(folder, ["localhost"], days=days[1] - days[0], now=made)
    return folder


@pytest.mark.faults
def test_what_is_no_gateway_is_not_joined(alone, tmp_path):
    """Clear messages, and nothing is changed."""
    good = certificates_of(tmp_path / "good")
    expired = certificates_of(tmp_path / "expired", (-30, -1))
    foreign = certificates_of(tmp_path / "foreign")
    page = b"<html>Welcome</html>"
    trusted = "--ca", str(good / "ca.pem")
    cases = [
        (page, 200, good, trusted, "does not respond like a gateway"),
        (page, 404, good, trusted, "HTTP status 404"),
        (page, 503, good, trusted, "is the address right?"),
        (b'{"agreement": "{}"}', 200, good, trusted, "not the text of an agreement"),
        (page, 200, expired, ("--ca", str(expired / "ca.pem")), "expired"),
        (page, 200, foreign, trusted, "is the file of its authority right?"),
        (page, 200, good, (), "is the file of its authority right?"),
    ]
    for body, status, keys, options, told in cases:
        with no_gateway(body, status, keys) as url:
            assert told in device_command(alone.home, "join", url, *options, "--yes", code=2)
    with no_gateway(page) as plain:
        url = plain.replace("http:", "https:")
        text = device_command(alone.home, "join", url, "--yes", code=2)
        assert "no connection to" in text and "is the address right?" in text
    assert "no connection to" in device_command(alone.home, "join", url, "--yes", code=2)
    for url in ("https://localhost:port", "localhost:8445", "http://other.example:1"):
        assert "https://HOST:PORT" in device_command(alone.home, "join", url, "--yes", code=2)
    missing = "--ca", str(tmp_path / "none.pem")
    assert "none.pem" in device_command(
        alone.home, "join", "https://localhost:1", *missing, "--yes", code=2
    )
    assert "in no federation" in device_command(alone.home, "status")
    assert "apple" in device_command(alone.home, "find", "apple")


@pytest.mark.faults
def test_a_gateway_that_is_away_or_another_one_loses_nothing(tmp_path):
    """The network is away; another federation is at the same address; the certificate has expired,
    or is another's. Then all is as before."""
    with federation_of(tmp_path / "a", 2, fewest=1, asked=2) as here:
        begin(here)
        person = Person(here, 0).join()
        person.search(SESSIONS)
        person.answer()
        here.wait_round(1)
        person.search(SESSIONS, 10)
        weights = person.running.service.ranker.weights.tobytes()
        here.kill("gateway-0")

        with PageProcess(person.home) as page:  # it starts and searches without a network
            assert page.search_and_open("apple pear")
            here.wait(lambda: "no connection to" in page.log, 30, "a line in the log")

        with federation_of(tmp_path / "b", 2, fewest=1, asked=2, rounds=9) as other:
            shutil.rmtree(other.folder / "gateway-tls")
            shutil.copytree(here.folder / "gateway-tls", other.folder / "gateway-tls")
            settings = other.folder / "gateway-0.toml"
            listen = f'listen = "127.0.0.1:{here.ports[0]}"'
            settings.write_text(re.sub(r"(?m)^listen = .*$", listen, settings.read_text()))
            begin(other)
            with PageProcess(person.home) as page:
                here.wait(lambda: "does not let this device take part" in page.log, 60, "refusal")
                assert page.search_and_open("plum fig")
                pending = page.ask("GET", "status")["federation"]["pending"]
                assert url_of(here) in pending and "foltr device leave" in pending
            other.wait(lambda: not other.rounds(), 1, "round that nobody made")

        for days in ((-30, -1), (0, 30)):
            keys = certificates_of(tmp_path / f"tls{days[0]}", days)
            with no_gateway_at(here.ports[0], keys):
                known = len(person.running.log.messages())
                with PageProcess(person.home) as page:
                    wrong = "is the file of its authority right?"
                    here.wait(lambda p=page, w=wrong: w in p.log, 30, "a line about it")
                    assert page.search_and_open("grape melon")
                assert len(person.running.log.messages()) == known

        here.start("gateway-0")
        here.wait_logged("gateway-0", "devices connect to")
        person.run()
        assert not person.running.membership.leaving and person.running.membership.due()
        assert person.running.service.ranker.weights.tobytes() != weights  # it has learned on
        with TakingPart([person]):
            here.wait(lambda: len(person.running.log.messages()) == 2, 60, "the message")
        assert [len(sent_in(person, t)) for t, _ in person.running.log.messages()] == [4, 4]


def no_gateway_at(port, keys):
    """A TLS server at a port, which nobody should trust."""

    class Untrusted:
        def __enter__(self):
            from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
            from ssl import PROTOCOL_TLS_SERVER, SSLContext

            context = SSLContext(PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keys / "server.pem", keys / "server.key")
            self.server = ThreadingHTTPServer(("127.0.0.1", port), SimpleHTTPRequestHandler)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.thread = threading.Thread(target=self.server.serve_forever)
            self.thread.start()

        def __exit__(self, *_):
            self.server.shutdown()
            self.thread.join(10)
            self.server.server_close()

    return Untrusted()


@pytest.mark.faults
def test_other_features_or_a_poor_budget_are_said_before_joining(tmp_path):
    features = [*NAMES[:-1], "colour"]
    private = {"privacy": "Laplace(epsilon=1.0, clip=1.0)", "fewest": 1, "asked": 2}
    with federation_of(tmp_path, 2, features=features, **private) as here:
        begin(here)
        person = Person(here, 0)
        options = "--ca", ca_of(here), "--yes", "--invitation", "x"
        text = device_command(person.home, "join", url_of(here), *options, code=2)
        assert "colour" in text and "use the version that the federation was made for" in text
        assert not (person.home.folder / JOINED).exists()
    with federation_of(tmp_path / "poor", 2, **private) as here:
        begin(here)
        options = "--ca", ca_of(here), "--invitation", "x", "--epsilon", "0.5", "--yes"
        text = device_command(person.home, "join", url_of(here), *options, code=2)
        assert "which buys 0 messages" in text
        assert "too little for one message: nothing would be sent" in text
        assert "this invitation is unknown" in text
        assert "in no federation" in device_command(person.home, "status")


# --- two processes ---


@pytest.mark.loopback
def test_a_second_process_on_the_folder_of_a_page_is_told_what_to_do(alone, tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "note.txt").write_text("quince marmalade")
    with PageProcess(alone.home) as page:
        text = device_command(alone.home, "search", "--no-open")
        assert page.address in text and "it runs already" in text
        pid = str(page.process.pid)
        for words in (("join", "https://localhost:1"), ("leave",), ("clear", "--yes")):
            text = device_command(alone.home, *words, code=2)
            assert "the search page of" in text and pid in text and "stop it first" in text
        assert "1 written" in device_command(alone.home, "index", str(documents))
        assert page.search_and_open("quince")
        assert "note.txt" in device_command(alone.home, "find", "quince")
        device_command(alone.home, "status")
        page.kill()
    text = device_command(alone.home, "clear", "--yes")  # the lock ended with its process
    assert "deleted" in text and alone.home.page is None


@pytest.mark.faults
def test_a_device_answers_while_its_folder_is_indexed(tmp_path):
    """A long run of writes by another process keeps neither clicks nor messages waiting."""
    with federation_of(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        person = Person(here, 0).join()
        code = (
            "import sys, time\n"
            "from pathlib import Path\n"
            "from foltr.device.home import Home\n"
            "from foltr.device.content import Text\n"
            "from foltr.device.index import PAUSE\n"
            "index = Home(Path(sys.argv[1])).index()\n"
            "for i in range(10**6):\n"
            "    with index.batch():\n"
            "        index.put(f'/busy/{i}', 1, 1, [Text('text', 'busy', '', 'busy', 1.0)])\n"
            "        time.sleep(0.5)\n"
            "    print(i, flush=True)\n"
            "    time.sleep(PAUSE)\n"
        )
        words = [sys.executable, "-c", code, str(person.home.folder)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as busy:
            try:
                assert busy.stdout.readline() == "0\n"
                person.search(SESSIONS)
                person.answer()
                for _ in range(12):
                    person.running.membership.records.set_about("busy", b"yes")
                    person.running.log.set_about("busy", b"yes")
                assert busy.poll() is None
            finally:
                busy.kill()
        here.wait_round(1)
        assert not any("locked" in text for text in person.told), person.told
        assert person.running.log.about("busy") == b"yes"


# --- away for long ---


@pytest.mark.faults
def test_a_device_that_was_away_for_rounds_sends_what_it_has_in_order(tmp_path):
    """Its searches were made with an old model, and are more than one message may have."""
    with federation_of(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        away, other = (hurry(Person(here, i).join()) for i in range(2))
        away.search(2 * SESSIONS + 1)
        agreed = other.running.membership.agreed
        for t in range(3):
            other.search(SESSIONS, 10 * t)
            other.answer()
        full_rounds(here, 3)
        assert away.running.service.ranker.epoch.round == 0
        for _ in range(2):
            assert away.running.membership.due()
            away.answer()
        full_rounds(here, 5)
        assert not away.running.membership.due()
        (one, _), (two, _) = away.running.log.messages()
        sent = [search.sent for search in reversed(away.running.log.last(100))]
        assert sent == [one] * 4 + [two] * 4 + [None]
        params, memory, t = simulated_rounds(here, agreed, [away, other])
        assert np.array_equal(here.model(t), params), here.everything()
        kept = away.running.service.ranker.epoch.memory
        assert kept.tobytes() == memory[0].tobytes()
        assert away.running.service.ranker.epoch.round == two  # the model of the last ask
        started = here.model(two).astype(np.float32)
        assert np.array_equal(away.running.service.ranker.epoch.params, started)
