"""The folder of a device: one key, one number, and what survives a lost response."""

import json
import stat

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core import Answers, Cohort
from foltr.core.errors import Mistake
from foltr.deployment.gateway.client import (
    Excluded,
    GatewayClient,
    Requests,
    Response,
    Unavailable,
)
from foltr.deployment.gateway.device_folder import DeviceFolder
from foltr.deployment.gateway.signing import KEY, SESSION, decoded, key_text, public_key, verified
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import Frame, Kind, Model, read_refusal
from foltr.deployment.protocol.participant import FORGET, FORGOTTEN, Participant
from foltr.secure_sum.terms import model_digest

AGREED = Agreement(Linear(), PDGD(sessions=2), ("a", "b"), 3, 1, 2, 9)
URL = "https://gateway.example:8445"


class Gateway(GatewayClient):
    """A gateway that answers from a list of (status, content), and keeps the requests."""

    def answering(self, *answers):
        self.answers, self.got = list(answers), []
        return self

    def call(self, request):
        self.got.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, content = answer
        return Response(status, {}, json.dumps(content).encode())


def gateway_of(home, *answers, url=URL):
    return Gateway(url, home.requests(AGREED)).answering(*answers)


def enrolled(client=4, agreement=AGREED.text):
    return 201, {"client": client, "token": "t", "agreement": agreement}


def test_a_device_joins_once_and_keeps_its_number(tmp_path):
    home = DeviceFolder(tmp_path / "device")
    assert home.joined is None
    gateway = gateway_of(home, enrolled())
    assert home.join(gateway, AGREED, "word") == 4 and gateway.requests.client == 4
    body = json.loads(gateway.got[0].body)
    key = decoded(body["key"], 32)
    assert body["invitation"] == "word" and key == home.key().public_key().public_bytes_raw()
    assert verified(public_key(key), decoded(body["signature"], 64), key_text(AGREED.id, key))
    assert stat.S_IMODE((tmp_path / "device" / "device.key").stat().st_mode) == 0o600
    again = gateway_of(DeviceFolder(tmp_path / "device"))  # another process
    assert (
        again.requests.client == 4
        and DeviceFolder(tmp_path / "device").join(again, AGREED, None) == 4
    )
    assert not again.got


def test_one_device_has_one_gateway_and_one_agreement(tmp_path):
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    with pytest.raises(Mistake, match=r"client 4 at https:.*: a device has one"):
        home.join(gateway_of(home, url="https://other.example:1"), AGREED, None)
    other = Agreement(Linear(), PDGD(sessions=2), ("a", "b"), 3, 1, 2, 10)
    with pytest.raises(Mistake, match="rounds is 10 now, 9 when it joined"):
        home.join(gateway_of(home), other, None)


def test_another_agreement_at_the_gateway_is_refused_and_nothing_is_kept(tmp_path):
    other = Agreement(Linear(), PDGD(sessions=2), ("a", "b"), 3, 1, 2, 10)
    home = DeviceFolder(tmp_path)
    with pytest.raises(Mistake, match="rounds is 9 on this device, 10 at the gateway"):
        home.join(gateway_of(home, enrolled(agreement=other.text)), AGREED, None)
    assert home.joined is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            (403, {"error": "this invitation has been used"}),
            "refuses this device: this invitation",
        ),
        ((503, {"error": "not ready"}), "not ready: try again later"),
        (Unavailable("no connection"), "no connection: try again later"),
    ],
)
def test_a_refusal_is_told(tmp_path, answer, told):
    home = DeviceFolder(tmp_path)
    with pytest.raises(Mistake, match=told):
        home.join(gateway_of(home, answer), AGREED, "word")
    assert home.joined is None


def test_a_damaged_folder_is_told(tmp_path):
    home = DeviceFolder(tmp_path)
    home.key()
    (tmp_path / "joined.json").write_text("{")
    with pytest.raises(Mistake, match=r"joined.json cannot be read"):
        _ = home.joined
    (tmp_path / "device.key").write_bytes(b"short")
    with pytest.raises(Mistake, match=r"device.key is damaged"):
        home.key()
    (tmp_path / "device.key").chmod(0o644)
    with pytest.raises(Mistake, match="chmod 600"):
        home.key()


def test_a_new_key_is_valid_whether_or_not_the_answer_was_lost(tmp_path):
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    before = home.key().private_bytes_raw()
    lost = gateway_of(home, Unavailable("no connection"))
    with pytest.raises(Unavailable):
        home.renew_key(lost)
    assert home.key().private_bytes_raw() == before  # the old one, until the gateway has agreed
    offered = json.loads(lost.got[0].body)["key"]
    # the gateway had stored it: the old key is refused, and the new one gets a token
    again = gateway_of(home, (403, {"error": "signature"}), (200, {"token": "new"}))
    home.renew_key(again)
    assert [request.path for request in again.got] == [KEY, SESSION]
    assert json.loads(again.got[0].body)["key"] == offered
    now = home.key()
    assert now.private_bytes_raw() != before and now.public_key().public_bytes_raw() == decoded(
        offered, 32
    )
    refused = gateway_of(home, (403, {"error": "revoked"}), (403, {"error": "revoked"}))
    with pytest.raises(Excluded):
        home.renew_key(refused)
    assert home.key().private_bytes_raw() == now.private_bytes_raw()


def test_joining_again_finishes_the_replacement_of_a_key(tmp_path):
    """The process was killed after the gateway had got the new key."""
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    with pytest.raises(Unavailable):
        home.renew_key(gateway_of(home, Unavailable("killed")))
    before = home.key().private_bytes_raw()
    assert home.join(gateway_of(home, Unavailable("offline")), AGREED, None) == 4
    assert home.key().private_bytes_raw() == before
    answers = (403, {"error": "signature"}), (200, {"token": "new"})
    assert home.join(gateway_of(home, *answers), AGREED, None) == 4
    assert home.key().private_bytes_raw() != before
    assert home.join(gateway_of(home), AGREED, None) == 4  # asks nothing


def test_a_device_that_wants_to_be_forgotten_refuses_asks_before_it_says_so(tmp_path):
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    with pytest.raises(Unavailable):
        home.forget(gateway_of(home, Unavailable("offline")), AGREED)
    records = home.records(AGREED)
    assert records.about(FORGET) is not None
    records.close()
    home.forget(gateway_of(home, (202, {"standing": "to be forgotten"})), AGREED)


def device_of(home, client=4):
    return Participant(AGREED, range(client, client + 1), lambda _: Engine(), home.records(AGREED))


class Engine:
    """Its one client sends the model; the device has no memory."""

    memory = np.zeros((9, 0), np.float32)

    def collect(self, ask, clients):
        return Answers(clients, Cohort(clients, ask.params[None], np.array([2.0])), None)


def answered(device, kind=Kind.LEARN, t=0, client=4):
    model = np.ones(2, np.float32)
    names = AGREED.id, t, t, model_digest(model), AGREED.feature_hash, bytes(16), AGREED.asked
    ask = Frame(kind, *names, (client,), Model(model).to_bytes())
    answer = Frame.from_bytes(device.answer(ask.to_bytes()))
    return answer.kind if answer.kind != Kind.REFUSED else read_refusal(answer.payload)[0]


def test_a_device_that_runs_learns_that_it_wants_to_be_forgotten(tmp_path):
    """`DeviceFolder.forget` is called beside it, perhaps in another process."""
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    device = device_of(home)
    assert answered(device) == Kind.LEARNED
    assert answered(device, Kind.FORGOTTEN) == "forget"  # a lie: its records stay
    assert device.records.last_round() == 0
    home.forget(gateway_of(home, (202, {"standing": "to be forgotten"})), AGREED)
    assert answered(device, t=1) == "forget"
    assert answered(device, Kind.FORGOTTEN) == Kind.WELCOME
    assert device.records.last_round() is None and device.records.about(FORGOTTEN) is not None


def test_a_device_with_another_number_keeps_its_budget(tmp_path):
    """It enrols again, because its gateway was restored from an older copy."""
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled(4)), AGREED, None)
    device = device_of(home)
    assert answered(device, t=3) == Kind.LEARNED
    device.records.close()
    (tmp_path / "joined.json").unlink()
    assert home.join(gateway_of(home, enrolled(7)), AGREED, "another") == 7
    again = device_of(home, 7)
    assert answered(again, t=2, client=7) == "round"
    assert again.records.of((4, 7))[7].spent == 1


def test_requests_of_a_device_that_has_not_joined_have_no_number(tmp_path):
    made = DeviceFolder(tmp_path).requests(AGREED)
    assert isinstance(made, Requests) and made.client is None


def test_joining_again_repeats_the_wish_to_be_forgotten(tmp_path):
    """It was interrupted before the gateway had it."""
    home = DeviceFolder(tmp_path)
    home.join(gateway_of(home, enrolled()), AGREED, None)
    with pytest.raises(Unavailable):
        home.forget(gateway_of(home, Unavailable("offline")), AGREED)
    for answer in (Unavailable("offline"), (403, {"error": "revoked"}), (202, {"standing": "x"})):
        gateway = gateway_of(home, answer)
        home.join(gateway, AGREED, None)
        assert [request.path for request in gateway.got] == ["/v1/forget"]
    device = device_of(home)
    assert answered(device, Kind.FORGOTTEN) == Kind.WELCOME
    device.records.close()
    home.join(gateway_of(home), AGREED, None)  # asks nothing


def test_a_device_that_had_another_number_is_told_what_stays_in_the_model(tmp_path):
    home = DeviceFolder(tmp_path)
    for t, client in enumerate((4, 7, 8)):
        home.join(gateway_of(home, enrolled(client)), AGREED, None)
        device = device_of(home, client)
        if client != 7:  # under this number it contributes nothing
            assert answered(device, t=t, client=client) == Kind.LEARNED
        device.records.close()
        (tmp_path / "joined.json").unlink()
    home.join(gateway_of(home, enrolled(8)), AGREED, None)
    told = []
    gateway = gateway_of(home, (202, {"standing": "to be forgotten"}))
    gateway.tell = told.append
    home.forget(gateway, AGREED)
    assert "client 4, 7 at another gateway" in told[0] and len(told) == 1
