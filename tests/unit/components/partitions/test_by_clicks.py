"""Type 3: who clicks how."""

import numpy as np
import pytest

from chance import plausible
from foltr.components.partitions.by_clicks import ByClicks
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import partitions
from foltr.core.world.population import SimulatedUser
from tiny_data import copies_nothing, made

DATA = made([[0, 1, 2, 0, 1, 2]], [3, 3], 3)
CASCADES = tuple(Cascade(kind=kind) for kind in ("perfect", "navigational", "informational"))
POSITIONS = tuple(PositionBased(eta=eta) for eta in (0.0, 0.5, 1.0, 1.5, 2.0))


@pytest.mark.parametrize(("named", "models"), [("cascades", CASCADES), ("positions", POSITIONS)])
def test_client_c_clicks_by_model_c(named, models):
    p = ByClicks(models=named).population(DATA, Cascade(), 7, 5, 1)
    assert p.click_models == models and copies_nothing(p, DATA)
    assert p.models.tolist() == [[c % len(models)] for c in range(7)]
    twin = ByClicks(models=named, iid=True).population(DATA, Cascade(), 7, 5, 1)
    assert twin.click_models == models and twin.models.tolist() == [list(range(len(models)))] * 7
    for each in (p, twin):
        assert (each.last - each.first == 2).all() and (each.sessions == 5).all()


def test_a_session_of_the_twin_draws_one_of_the_models():
    """One document of grade 1: perfect and navigational users click it with .5, informational ones
    with .7."""
    data = made([[1]], [1], 3)
    twin = ByClicks(iid=True).population(data, Cascade(), 1, 5, 1)
    searches = (
        SimulatedUser(twin, 0, stream(1, "user", t)).session(lambda docs: np.array([0]))
        for t in range(3000)
    )
    assert plausible(sum(clicks[0] for _, _, clicks in searches), 3000, (0.5 + 0.5 + 0.7) / 3)


def test_own_models_as_a_spec():
    own = ByClicks(models=(Cascade(kind="perfect"), PositionBased(eta=1)))
    assert partitions.build(repr(own)) == own
    assert partitions.build("ByClicks(models=(Cascade(), PositionBased()))") == own
    assert own.population(DATA, Cascade(), 2, 5, 1).click_models == own.models


def test_what_is_wrong_is_refused():
    with pytest.raises(Mistake, match="did you mean 'cascades'"):
        ByClicks(models="cascade")
    with pytest.raises(Mistake, match="at least one click model"):
        ByClicks(models=())
    with pytest.raises(Mistake, match=r"or give a tuple, \(Cascade\(\), \.\.\.\)"):
        ByClicks(models="Cascade()")
    with pytest.raises(Mistake, match=r"not by Cascade\(kind='informational'.*leave users out"):
        ByClicks().population(DATA, Cascade(kind="informational"), 3, 5, 1)
    with pytest.raises(Mistake, match="the data has 4: give Cascade"):
        ByClicks().population(made([[0, 3]], [2], 4), Cascade(), 3, 5, 1)
