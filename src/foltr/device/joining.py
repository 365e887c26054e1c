"""How a device joins a federation: what is offered, what it means, and where the device starts.

Joining is done when `ClickLog.begin_period` is: if it is interrupted before, the device is in no
federation, and can join again with the same key."""

from __future__ import annotations

import ssl

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.seeds import stream
from foltr.core.stepwise import stepwise
from foltr.deployment.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.deployment.gateway.device_folder import JOINED
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import Frame, Malformed, Model
from foltr.deployment.protocol.participant import FORGET, FORGOTTEN, MASKED
from foltr.deployment.protocol.records import EARLIER
from foltr.device.budget import messages_within
from foltr.device.click_log import Epoch
from foltr.device.home import Home, Terms
from foltr.device.learning import LocalRanker, check_usable
from foltr.device.searching import NAMES
from foltr.secure_sum.terms import model_digest


def offered(url: str, tls: ssl.SSLContext | None) -> tuple[Agreement, str]:
    """The agreement of a gateway's federation, and what the gateway sees. Raises a Mistake if this
    device cannot take part."""
    stranger = Requests(Ed25519PrivateKey.generate(), b"")
    try:
        about = GatewayClient(url, stranger, tls).about()
    except (Unavailable, Excluded) as error:
        raise Mistake(f"{error}: is the address right?") from None
    except Mistake:
        raise
    except ValueError:  # its port is no number
        raise Mistake(f"{url!r} is no gateway: give https://HOST:PORT") from None
    text = about.get("agreement")
    require(isinstance(text, str), f"{url} does not respond like a gateway of foltr")
    agreed = Agreement.from_text(str(text))
    check_fits(agreed, url)
    return agreed, str(about.get("gateway_sees", ""))


def check_fits(agreed: Agreement, url: str) -> None:
    """Refuse a federation whose models this device cannot use."""
    if agreed.features != NAMES:
        other = sorted(set(agreed.features) ^ set(NAMES), key=(*agreed.features, *NAMES).index)
        some = f", for example {other[0]!r}" if other else " in their order"
        raise Mistake(
            f"the models of {url} are for {len(agreed.features)} features, which differ from the"
            f" {len(NAMES)} of this version of foltr{some}: use the version that the federation"
            " was made for"
        )
    if agreed.protocol is not None and agreed.protocol.consistency:
        raise Mistake(
            f"{url} has {agreed.channel!r}, which needs the keys of all devices: this device has"
            " no file of them. Ask its operator for a federation with SecureSum()"
        )
    stepwise(agreed.learner)


def terms_text(agreed: Agreement, sees: str, terms: Terms, elsewhere: float = 0.0) -> list[str]:
    """What joining means, for the user to read before. `elsewhere` is the epsilon of messages to
    other federations in this period."""
    bought = messages_within(agreed.text, terms.epsilon, elsewhere)
    lines = [
        f"learner: {agreed.learner!r}",
        f"noise: {agreed.privacy!r}" if agreed.privacy else "noise: none",
        f"secure sum: {agreed.channel!r}" if agreed.channel else "secure sum: none",
        f"the gateway sees: {sees or 'unknown'}",
        f"a round: {agreed.asked} devices are asked, and at least {agreed.fewest} must answer",
        f"this device sends after {terms.searches} searches, or {terms.days:g} days",
    ]
    if agreed.privacy is None:
        lines.append("privacy budget: none, because messages have no noise")
    elif terms.epsilon is None:
        lines.append(f"privacy budget: no limit of yours; the agreement allows {bought} messages")
    else:
        per = f"epsilon {terms.epsilon:g} (delta 1e-5) in {terms.period:g} days"
        used = f", of which {elsewhere:.2f} is spent in other federations" if elsewhere else ""
        lines.append(f"privacy budget: {per}{used}, which buys {bought} messages")
        if bought == 0:
            lines.append("this is too little for one message: nothing would be sent")
    return lines


def join(
    home: Home, own: LocalRanker, agreed: Agreement, terms: Terms, invitation: str | None
) -> int:
    """Enrol at the gateway, pin the agreement, and start from the server's model. `own` is the
    ranker of the device before it joins. Returns the client number."""
    names = [FORGET, FORGOTTEN]
    if own.log.about("federation") not in (None, agreed.id):  # it has left another one
        names += ["federation", MASKED, EARLIER]
    for name in names:
        own.log.delete_about(name)
    records = home.federation.records(agreed)
    if len(names) > 2:
        records.forget()
    (home.folder / JOINED).unlink(missing_ok=True)  # of an attempt that was interrupted
    gateway = GatewayClient(terms.gateway, home.federation.requests(agreed), home.tls)
    client = home.federation.join(gateway, agreed, invitation)
    home.set_terms(terms)
    try:
        found = gateway.model()
    except (Unavailable, Excluded):
        found = None
    first = agreed.ranker.init(len(NAMES), stream(own.seed, "init"))
    try:
        round, params = (0, first) if found is None else model_in(found[1], agreed)
    except Unavailable as error:
        raise Mistake(f"{error}: not joined") from None
    finally:
        gateway.close()
    same = len(own.weights) == len(params)
    memory = first_memory(agreed, own.weights if same else params, params, own.made)
    epoch = own.epoch.epoch + 1
    records.restart(memory, epoch)
    own.log.keep_agreement(agreed.id, agreed.text)
    own.log.begin_period(Epoch(epoch, round, params, memory), agreed.id)
    return client


def first_memory(agreed: Agreement, own: Array, params: Array, searches: int) -> Array:
    """What a device that joins keeps at first. Where its ranker is the server's plus a residual,
    that is a share of the difference between its own ranker and the server's: the more searches it
    has made alone, the larger, searches / (searches + those of a round). A new device starts with
    the server's ranker."""
    learner = agreed.device_learner
    usual, apart = learner.remembered(agreed.ranker, params), (own - params).astype(np.float32)
    residual = len(usual) == len(apart)
    if not residual or not np.array_equal(learner.personal(params, apart), params + apart):
        return usual
    return np.float32(searches / (searches + agreed.sessions)) * apart


def model_in(frame: bytes, agreed: Agreement) -> tuple[int, Array]:
    """The number of rounds that a model has, and its parameters. Raises Unavailable for a model
    of another federation, or for other features."""
    try:
        found = Frame.from_bytes(frame)
        params = Model.from_bytes(found.payload, agreed.parameters).params
        if model_digest(params) != found.model:
            raise Malformed("its hash does not fit its parameters")
    except Malformed as error:
        raise Unavailable(f"the gateway's model is not understood: {error}") from None
    if found.federation != agreed.id or found.features != agreed.feature_hash:
        raise Unavailable("the gateway's model is of another federation, or for other features")
    try:
        check_usable(params)
    except Mistake as mistake:
        raise Unavailable(str(mistake)) from None
    return found.model_round, params
