"""The trained ranker by itself: save it, load it, rank new documents, write it as a Python file
without dependencies, and let another tool measure it."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import foltr

out = Path("export-ranker")
out.mkdir(exist_ok=True)
experiment = foltr.Experiment(data="Synthetic(queries=200)", clients=20, rounds=100)
result = experiment.run(out=out)

result.trained.save(out / "ranker.json")
ranker = foltr.load_ranker(out / "ranker.json")
test = experiment.data.load("test")
best = foltr.rank(ranker, test.features[: test.offsets[1]], k=3)
print(f"best documents of the first query: {best}, judged {test.labels[0, best]}")

# `foltr export` has more formats: onnx, opensearch, elasticsearch, sklearn
code = foltr.export(ranker, "python", out / "ranker.py", overwrite=True)
print(subprocess.run([sys.executable, code], capture_output=True, text=True).stdout, end="")

with open(out / "run.txt", "w") as run, open(out / "qrels.txt", "w") as judged:  # in TREC form
    run.writelines(line + "\n" for line in ranker.trec_run(test))
    judged.writelines(line + "\n" for line in foltr.qrels(test))

print(f"foltr's nDCG@10:       {result.final['ndcg@10']:.6f}")
try:
    import ir_measures
    from ir_measures import nDCG
except ImportError:
    print("pip install ir-measures to compare")
else:
    measure = nDCG(gains={0: 0, 1: 1, 2: 3}) @ 10  # 2^r - 1, as here
    qrels = list(ir_measures.read_trec_qrels(str(out / "qrels.txt")))
    relevant = {judgement.query_id for judgement in qrels if judgement.relevance > 0}
    lines = ir_measures.read_trec_run(str(out / "run.txt"))
    values = [
        each.value
        for each in ir_measures.iter_calc([measure], qrels, lines)
        if each.query_id in relevant
    ]
    print(
        f"ir-measures' nDCG@10:  {np.mean(values):.6f} over {len(values)} queries with a relevant"
        " document"
    )
