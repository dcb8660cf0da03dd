r"""Jobs of scikit-learn in loky's processes: what each has for itself, and all processes together.

python examples/spawned_jobs.py 4
pasture run --fork-spawned --preload sklearn.ensemble,sklearn.datasets -- \
    python examples/spawned_jobs.py 4
"""

import os
import sys
import time

from joblib import Parallel, delayed
from processes import kib, tree
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier


def fit(seed):
    data, classes = make_classification(2000, 20, random_state=seed)
    score = RandomForestClassifier(20, random_state=seed).fit(data, classes).score(data, classes)
    time.sleep(0.5)
    return score, kib(os.getpid(), "Private")


if __name__ == "__main__":
    workers = int(sys.argv[1])
    with Parallel(workers) as pool:
        results = pool(delayed(fit)(seed) for seed in range(4 * workers))
        pss = sum(kib(pid, "Pss:") for pid in tree(os.getpid()))
    print(f"scores {sum(score for score, _ in results):.4f},")
    print(f"{max(private for _, private in results) / 976.6:.0f} MB private in a worker,")
    print(f"{pss / 976.6:.0f} MB in all processes")
