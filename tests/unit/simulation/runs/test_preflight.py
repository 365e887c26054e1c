"""What is refused where an experiment meets its data."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.components.sources.synthetic import Synthetic
from foltr.core.errors import Mistake
from foltr.core.spec import sources
from foltr.experiment import Experiment

SMALL = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Split:
    """A source whose splits do not fit together."""

    change: str = "grades"

    splits = ("train", "test")

    def load(self, split):
        data = Synthetic(queries=20).load("train")
        if split == "train":
            return data
        changes = {
            "grades": {"grades": 5},
            "width": {"width": 40},
            "label": {"labels": data.labels + np.int8(1)},
        }
        return replace(data, **changes[self.change])


@pytest.mark.parametrize(
    ("change", "message"), [("grades", "fit"), ("width", "fit"), ("label", "reach")]
)
def test_splits_must_fit_together(change, message, request):
    sources.register(Split)
    request.addfinalizer(lambda: sources.forget(__name__))
    with pytest.raises(Mistake, match=message):
        replace(SMALL, data=Split(change)).run()
