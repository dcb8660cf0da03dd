"""A library in a process that is sealed and forks: `python libraries.py NAME before|after [stock]`.

`before`: the parent has imported the library and made what it needs, and used nothing when it is
sealed; `after`: it has used it. Then a child uses it, and the parent does. With `stock` nothing is
sealed. Prints JSON: what the child came to (right, wrong, an exception, or that it hangs), and the
hazards that the seal named.
"""

import glob
import importlib.metadata
import json
import os
import signal
import sys
import time
import warnings

LIMIT_S = float(os.environ.get("LIBRARY_LIMIT_S", "30"))
warnings.simplefilter("ignore")


def numpy():
    import numpy as np

    square = np.arange(250_000, dtype=float).reshape(500, 500) / 1e5
    return lambda: round(float((square @ square.T).sum()), 3)


def scipy():
    import numpy as np
    from scipy import linalg

    matrix = np.eye(200) * 4 + np.ones((200, 200))
    return lambda: round(float(linalg.inv(matrix).sum()), 9)


def pandas():
    import pandas as pd

    frame = pd.DataFrame({"key": [i % 7 for i in range(50_000)], "value": range(50_000)})
    return lambda: frame.groupby("key").value.sum().tolist()


def polars():
    import polars as pl

    frame = pl.DataFrame({"key": [i % 7 for i in range(50_000)], "value": range(50_000)})
    return lambda: frame.group_by("key").agg(pl.col("value").sum()).sort("key")["value"].to_list()


def pyarrow():
    import pyarrow as pa

    table = pa.table({"key": [i % 7 for i in range(50_000)], "value": range(50_000)})
    return lambda: sorted(
        table.group_by("key").aggregate([("value", "sum")])["value_sum"].to_pylist()
    )


def duckdb():
    import duckdb

    return lambda: duckdb.connect().sql("select sum(range) from range(1000000)").fetchall()


def sklearn():
    import numpy as np
    from sklearn.cluster import KMeans  # OpenMP

    points = np.random.default_rng(0).random((20_000, 8))
    model = KMeans(5, n_init=1, random_state=0, max_iter=10)
    return lambda: round(float(model.fit(points).inertia_), 3)


def joblib():
    import joblib as library

    def use():  # loky's own processes
        with library.parallel_config(n_jobs=2):
            return library.Parallel()(library.delayed(pow)(i, 2) for i in range(20))

    return use


def xgboost():
    import numpy as np
    import xgboost as xgb

    draw = np.random.default_rng(0)
    x, y = draw.random((5_000, 10)), draw.integers(0, 2, 5_000)
    options = {"nthread": 2, "verbosity": 0, "seed": 1}

    def use():  # OpenMP
        data = xgb.DMatrix(x, label=y)
        return round(float(xgb.train(options, data, 5).predict(data).sum()), 2)

    return use


def lightgbm():
    import lightgbm as lgb
    import numpy as np

    draw = np.random.default_rng(0)
    x, y = draw.random((5_000, 10)), draw.integers(0, 2, 5_000)
    options = {"num_threads": 2, "verbose": -1, "seed": 1, "deterministic": True}
    return lambda: round(float(lgb.train(options, lgb.Dataset(x, y), 5).predict(x).sum()), 2)


def onnxruntime():
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    names = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [256, 256]) for n in "xyz"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "y"], ["z"])], "g", names[:2], names[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(model.SerializeToString(), options, providers=providers)
    ones = np.ones((256, 256), np.float32)
    return lambda: float(session.run(None, {"x": ones, "y": ones})[0].sum())


def tokenizers():
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = ["the quick brown fox jumps over the lazy dog"] * 200
    trainer = trainers.BpeTrainer(vocab_size=100, special_tokens=["?"], show_progress=False)
    tokenizer.train_from_iterator(text, trainer)
    return lambda: sum(len(one.ids) for one in tokenizer.encode_batch(text))


def torch():
    import torch as library

    def use():  # OpenMP
        square = library.arange(1_000_000.0).reshape(1000, 1000) / 1e6
        return round(float((square @ square.T).sum()), 0)

    return use


def torch_loader():
    import torch as library
    from torch.utils.data import DataLoader

    numbers = [[float(i), i % 3] for i in range(2_000)]

    def use():
        loader = DataLoader(numbers, batch_size=100, num_workers=2, multiprocessing_context="fork")
        return sum(float(x.sum()) for x, _ in loader)

    return use if library else None


def lightning():
    import lightning.pytorch as pl
    import torch as library

    class Line(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = library.nn.Linear(1, 1)

        def training_step(self, batch, _):
            return (self.layer(batch) - 2 * batch).square().mean()

        def configure_optimizers(self):
            return library.optim.SGD(self.parameters(), lr=0.1)

    def use():
        pl.seed_everything(1, verbose=False)
        data = library.linspace(0, 1, 64).reshape(-1, 1)
        loader = library.utils.data.DataLoader(
            data, 16, num_workers=2, multiprocessing_context="fork"
        )
        model = Line()
        pl.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        ).fit(model, loader)  # fmt: skip
        return round(float(model.layer.weight), 4)

    return use


def transformers():
    import torch as library
    from transformers import BertConfig, BertModel

    library.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128,
    )  # fmt: skip
    model = BertModel(config).eval()

    def use():
        with library.no_grad():
            return round(float(model(library.arange(50)[None]).last_hidden_state.abs().sum()), 2)

    return use


def datasets():
    import tempfile

    os.environ["HF_DATASETS_OFFLINE"] = "1"
    os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp()
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    rows = Dataset.from_dict({"x": list(range(1000))})
    return lambda: sum(rows.map(lambda row: {"y": 2 * row["x"]}, num_proc=2)["y"])


def spacy():
    import spacy as library

    language = library.blank("en")
    language.add_pipe("sentencizer")
    return lambda: [len(list(doc.sents)) for doc in language.pipe(["A b. C d.", "E."] * 50)][:4]


def cv2():
    import cv2 as library
    import numpy as np

    picture = np.arange(3_000_000, dtype=np.uint8).reshape(1000, 1000, 3)
    return lambda: int(library.GaussianBlur(library.resize(picture, (500, 500)), (9, 9), 2).sum())


def numba():
    import numba as library
    import numpy as np

    @library.njit(parallel=True)
    def total(x):
        found = 0.0
        for i in library.prange(len(x)):
            found += x[i]
        return found

    numbers = np.arange(100_000, dtype=float)
    return lambda: float(total(numbers))


def jax():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax as library
    import jax.numpy as jnp

    double = library.jit(lambda x: (x @ x.T).sum())
    return lambda: float(double(jnp.ones((300, 300))))


def faiss():
    import faiss as library
    import numpy as np

    points = np.random.default_rng(0).random((5_000, 16)).astype(np.float32)
    index = library.IndexFlatL2(16)
    index.add(points)
    return lambda: int(index.search(points[:200], 3)[1].sum())


def statsmodels():
    import numpy as np
    import statsmodels.api as sm

    x = sm.add_constant(np.arange(500.0))
    return lambda: [round(float(p), 6) for p in sm.OLS(3 * x[:, 1] + 2, x).fit().params]


def sentence_transformers():
    import tempfile

    from sentence_transformers import SentenceTransformer, models
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "a", "b", "c"])}
    tokenizer = Tokenizer(kinds.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tempfile.mkdtemp()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    )
    fast.save_pretrained(folder)
    BertModel(
        BertConfig(
            vocab_size=5, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64,
        )
    ).save_pretrained(folder)  # fmt: skip
    part = models.Transformer(folder)
    model = SentenceTransformer(modules=[part, models.Pooling(32)], device="cpu")
    return lambda: round(float(abs(model.encode(["a b c", "b"] * 50)).sum()), 2)


def h5py():
    import tempfile

    import h5py as library
    import numpy as np

    path = tempfile.mkdtemp() + "/x.h5"
    with library.File(path, "w") as file:
        file["x"] = np.arange(1000)

    def use():
        with library.File(path) as file:
            return int(file["x"][:].sum())

    return use


DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "faiss": "faiss-cpu",
    "sentence_transformers": "sentence-transformers",
    "sklearn": "scikit-learn",
    "torch_loader": "torch",
}
"""Of those that are not called as their module."""

CARDS = {
    one.__name__: one
    for one in (
        numpy, scipy, pandas, polars, pyarrow, duckdb, sklearn, joblib, xgboost, lightgbm,
        onnxruntime, tokenizers, torch, torch_loader, lightning, transformers,
        sentence_transformers, datasets, spacy, cv2, numba, jax, faiss, statsmodels, h5py,
    )
}  # fmt: skip


def sleeps(group):
    """Whether no thread of a group of processes has anything to do, or waits for a disk."""
    for path in glob.glob("/proc/[0-9]*/task/*/stat"):
        try:
            with open(path) as file:
                state, _, of_group, *_ = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(of_group) == group and state in "RD":
            return False
    return True


def in_child(use, wanted):
    """What a child comes to: its value is compared with `wanted()`, which is called afterwards."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reader)
        try:
            text = json.dumps({"value": use()})
        except BaseException as error:
            text = json.dumps({"error": f"{type(error).__name__}: {str(error)[:200]}"})
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    os.set_blocking(reader, False)
    slept_s, text, ended = 0.0, b"", False
    while not ended and slept_s < LIMIT_S:  # on a busy machine it may wait long to work
        ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        time.sleep(0.1)
        slept_s += 0.1 * sleeps(pid)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        text = os.read(reader, 1 << 16)
    except BlockingIOError:
        pass
    if not text:
        return "ended" if ended else f"hangs ({LIMIT_S:.0f} s)"
    found = json.loads(text)
    if "error" in found:
        return found["error"]
    right = found["value"] == json.loads(json.dumps(wanted()))
    return "right" if right else f"wrong: {found['value']}"


def main():
    name, when, *more = sys.argv[1:]
    use = CARDS[name]()
    first = use() if when == "after" else None
    found = {"library": name, "when": when, "stock": bool(more)}
    found["version"] = importlib.metadata.version(DISTRIBUTIONS.get(name, name))
    if not more:
        import pasture

        report = pasture.seal()
        found["sealed"] = report.sealed
        found["hazards"] = [str(hazard) for step in report.steps for hazard in step.hazards]
    found["child"] = in_child(use, lambda: use() if first is None else first)
    found["parent"] = "right" if first is None or use() == first else "wrong"
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
