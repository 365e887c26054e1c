"""The LETOR reader beside scikit-learn's, on a text of MSLR's shape (136 features, raw numbers):
same arrays, how fast.

Run: python benchmarks/reader.py [MEGABYTES]. Ends with one line of JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from foltr.core.seeds import stream
from foltr.data.letor import PLAIN, arrays

FEATURES, DOCUMENTS, REPEATS = 136, 120, 3


def write_text(path: Path, size: int) -> None:
    """Queries of raw features as MSLR has them: small counts, fractions of six digits, large
    counts."""
    with open(path, "w") as file:
        query = 0
        while file.tell() < size:
            rng, query = stream(0, "text", query), query + 1
            values = 5.0 * rng.normals(DOCUMENTS * FEATURES).reshape(DOCUMENTS, FEATURES)
            labels = (5 * rng.uniforms(DOCUMENTS) ** 2).astype(int)
            for label, row in zip(labels.tolist(), values.tolist(), strict=True):
                file.write(
                    f"{label} qid:{query} {' '.join(_word(i, x) for i, x in enumerate(row, 1))}\n"
                )


def _word(index: int, value: float) -> str:
    """Half of MSLR's columns are whole numbers, a few of them in the millions."""
    kind = index % 20
    if kind == 0:
        return f"{index}:{int(abs(value) * 1e6)}"
    return f"{index}:{int(abs(value))}" if kind < 10 else f"{index}:{value:.6f}"


def best_times(tasks: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """The best of several times of each task, taken in turn so that a busy machine slows all
    alike; what came out."""
    seconds, results = dict.fromkeys(tasks, float("inf")), {}
    for _ in range(REPEATS):
        for name, task in tasks.items():
            begun = time.perf_counter()
            results[name] = task()
            seconds[name] = min(seconds[name], time.perf_counter() - begun)
    return seconds, results


def same(ours: Any, theirs: tuple[Any, ...]) -> bool:
    features, labels, queries = theirs
    lengths = np.diff([*ours.starts, len(ours.labels)])
    dense = features.toarray()
    return (
        ours.storage[:, :FEATURES].tobytes() == dense.tobytes()
        and np.array_equal(ours.labels, labels)
        and np.array_equal(np.repeat(ours.query_ids, lengths).astype(np.int64), queries)
    )


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_text(path, int(megabytes * 1e6))
        size = path.stat().st_size / 1e6
        arrays(path, PLAIN, 1)  # compile
        tasks = {
            "one_thread": lambda: arrays(path, PLAIN, 1),
            "two_threads": lambda: arrays(path, PLAIN, 2),
            "sklearn": lambda: load_svmlight_file(str(path), dtype=np.float32, query_id=True),
        }
        seconds, results = best_times(tasks)
        equal = same(results["one_thread"], results["sklearn"])
    for name, best in seconds.items():
        print(f"{name:12} {best:7.2f} s {size / best:7.1f} MB/s {seconds['sklearn'] / best:6.1f}x")
    print(f"same arrays: {equal}")
    over = seconds["sklearn"] / seconds["one_thread"]
    speeds = {name: size / best for name, best in seconds.items()}
    print(
        json.dumps({"megabytes": size, "equal": equal, "over_sklearn": over, "mb_per_s": speeds})
    )
    if not equal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
