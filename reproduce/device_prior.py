"""The ranker that a device can start from instead of BM25 (`foltr.device.learning.PRIOR`).

    python reproduce/device_prior.py

It is a ranking SVM on the hyperlinks of the manuals of the bed `tuning`, which no reported result
uses. For each manual, one is also trained on the others and measured on it: what a person with
other documents can expect. The manuals are downloaded with apt-get, once (about two minutes)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from device_study import dataset_of
from device_study_data import load_bed

from foltr.components.baselines.ranking_svm import RankingSVM
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.system.files import cache_folder
from foltr.device.demo.simulated import Device, HeldOut
from foltr.device.learning import PRIOR, START
from foltr.device.searching import ABOUT, NAMES

QUERIES = 150  # of a manual: a large one must not outweigh the others
SCALE = 0.5  # of the SVM's weights: learning on goes faster from small scores (chosen on `tuning`)


def trained(devices: list[Device]) -> np.ndarray:
    queries = [query for device in devices for query in device.queries[:QUERIES]]
    data = dataset_of(queries, max(device.grades for device in devices))
    return SCALE * np.asarray(RankingSVM().fit(data, None, 0).params, float)


def ndcg(device: Device, weights: np.ndarray) -> float:
    held_out = HeldOut.of(device.queries)
    return held_out.ndcg(held_out.features @ weights, stream(0, "ties"))


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--cache", type=Path, default=cache_folder("device-search"))
    folder = given.parse_args().cache
    try:
        bed = load_bed("tuning", folder, None, lambda *told: print(*told, file=sys.stderr))
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 2
    print("nDCG@10 on a manual: BM25, and trained on the other manuals")
    bm25, found = START.init(len(NAMES), stream(0)), []
    for device in bed.devices:
        others = trained([each for each in bed.devices if each is not device])
        found.append((ndcg(device, bm25), ndcg(device, others)))
        print(f"{device.name:12} {found[-1][0]:.3f} {found[-1][1]:.3f}")
    print(f"{'mean':12} {np.mean(found, axis=0)[0]:.3f} {np.mean(found, axis=0)[1]:.3f}")
    weights = tuple(round(float(each), 2) + 0.0 for each in trained(list(bed.devices)))
    for name, weight in zip(ABOUT, weights, strict=True):
        print(f'    "{name}": {weight},')
    print(
        "the stored weights are these" if PRIOR.start == weights else "they are NOT those stored"
    )
    return 0 if PRIOR.start == weights else 1


if __name__ == "__main__":
    sys.exit(main())
