"""Objects of extensions that hold a lock, a file, a mapping or a buffer, one kind a run.

`python extension_ends.py KIND [seal]` makes one, seals or does not, drops it, and prints whether
what it held was given back before and after. Each kind is a function that returns the object and
a function that looks. What it imports is its package.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Made = tuple[Any, Callable[[], bool]]

FOLDER = Path(tempfile.mkdtemp())
FILE = FOLDER / "file"


def grows(data: bytearray) -> Callable[[], bool]:
    def look() -> bool:
        try:
            data.append(0)
        except BufferError:
            return False
        return True

    return look


def unmapped(path: Path = FILE) -> bool:
    return str(path) not in Path("/proc/self/maps").read_text()


def closed(path: Path = FILE) -> bool:
    links = (Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    return str(path) not in [os.readlink(link) for link in links if link.is_symlink()]


def tantivy_writer() -> Made:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("title", stored=True)
    index = tantivy.Index(builder.build(), path=str(FOLDER))

    def look() -> bool:
        try:
            tantivy.Index.open(str(FOLDER)).writer()
        except ValueError:  # LockBusy
            return False
        return True

    return index.writer(), look


def pyarrow_buffer() -> Made:
    import pyarrow

    below = bytearray(100)
    return pyarrow.py_buffer(below), grows(below)


def pyarrow_array() -> Made:
    import numpy
    import pyarrow

    below = bytearray(800)
    return pyarrow.array(numpy.frombuffer(below)), grows(below)


def _arrow_file() -> Any:
    import pyarrow

    table = pyarrow.table({"a": list(range(1000))})
    with pyarrow.OSFile(str(FILE), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return pyarrow


def pyarrow_reader() -> Made:
    pyarrow = _arrow_file()
    return pyarrow.ipc.open_file(pyarrow.OSFile(str(FILE))), closed


def pyarrow_mapped_table() -> Made:
    pyarrow = _arrow_file()
    return pyarrow.ipc.open_file(pyarrow.memory_map(str(FILE))).read_all(), unmapped


def safetensors_file() -> Made:
    import numpy
    import safetensors
    import safetensors.numpy

    safetensors.numpy.save_file({"a": numpy.ones(1000)}, FILE)
    return safetensors.safe_open(str(FILE), "numpy"), unmapped


def greenlet_suspended() -> Made:
    import greenlet

    happened: list[int] = []

    def run() -> None:
        try:
            greenlet.getcurrent().parent.switch()
        finally:
            happened.append(1)

    made = greenlet.greenlet(run)
    made.switch()
    return made, lambda: happened == [1]


def cffi_from_buffer() -> Made:
    import cffi

    below = bytearray(100)
    return cffi.FFI().from_buffer(below), grows(below)


def cffi_collected() -> Made:
    import cffi

    happened: list[int] = []
    ffi = cffi.FFI()
    return ffi.gc(ffi.new("int *"), happened.append), lambda: len(happened) == 1


def pillow_font() -> Made:
    import shutil

    from matplotlib import font_manager
    from PIL import ImageFont

    shutil.copy(font_manager.findfont("DejaVu Sans"), FILE)
    return ImageFont.truetype(str(FILE)), lambda: unmapped() and closed()


def pillow_image() -> Made:
    from PIL import Image

    path = FILE.with_suffix(".bmp")
    Image.new("L", (256, 256)).save(path)
    made = Image.open(path)
    made.load()
    return made.im, lambda: unmapped(path)


def sklearn_tree() -> Made:
    import numpy
    from sklearn.neighbors import KDTree

    below = bytearray(8000)
    return KDTree(numpy.frombuffer(below).reshape(-1, 2)), grows(below)


def scipy_tree() -> Made:
    import numpy
    from scipy.spatial import KDTree

    below = bytearray(8000)
    return KDTree(numpy.frombuffer(below).reshape(-1, 2)), grows(below)


def numpy_broadcast() -> Made:
    import numpy

    below = bytearray(800)
    return numpy.broadcast(numpy.frombuffer(below), 1), grows(below)


def numpy_record() -> Made:
    import numpy

    below = bytearray(800)
    return numpy.frombuffer(below, dtype=[("a", "i4"), ("b", "i4")])[1], grows(below)


def numpy_memmap() -> Made:
    import numpy

    FILE.write_bytes(bytes(8000))
    return numpy.memmap(FILE, mode="r")[10:20], unmapped


def pandas_frame() -> Made:
    import numpy
    import pandas

    below = bytearray(8000)
    return pandas.DataFrame(numpy.frombuffer(below).reshape(-1, 2), copy=False), grows(below)


def h5py_dataset() -> Made:
    import h5py

    with h5py.File(FILE, "w") as file:
        file["a"] = list(range(1000))
    return h5py.File(FILE)["a"].id, closed


def regex_matches() -> Made:
    import regex

    below = bytearray(b"abc" * 10)
    made = regex.finditer(b"a", below)
    next(made)
    return made, grows(below)


def msgspec_raw() -> Made:
    import msgspec

    below = bytearray(b"[1]")
    return msgspec.Raw(memoryview(below)), grows(below)


def msgspec_struct() -> Made:
    import msgspec

    class Holds(msgspec.Struct):
        file: Any

    return Holds(FILE.open("w")), closed


def rpds_map() -> Made:
    import rpds

    return rpds.HashTrieMap({"a": FILE.open("w")}), closed


def multidict_of_a_file() -> Made:
    import multidict

    return multidict.MultiDict({"a": FILE.open("w")}), closed


KINDS = {
    "tantivy_writer": tantivy_writer,
    "pyarrow_buffer": pyarrow_buffer,
    "pyarrow_array": pyarrow_array,
    "pyarrow_reader": pyarrow_reader,
    "pyarrow_mapped_table": pyarrow_mapped_table,
    "safetensors_file": safetensors_file,
    "greenlet_suspended": greenlet_suspended,
    "cffi_from_buffer": cffi_from_buffer,
    "cffi_collected": cffi_collected,
    "pillow_font": pillow_font,
    "pillow_image": pillow_image,
    "sklearn_tree": sklearn_tree,
    "scipy_tree": scipy_tree,
    "numpy_broadcast": numpy_broadcast,
    "numpy_record": numpy_record,
    "numpy_memmap": numpy_memmap,
    "pandas_frame": pandas_frame,
    "h5py_dataset": h5py_dataset,
    "regex_matches": regex_matches,
    "msgspec_raw": msgspec_raw,
    "msgspec_struct": msgspec_struct,
    "rpds_map": rpds_map,
    "multidict_of_a_file": multidict_of_a_file,
}


def drop(held: list[Any], look: Callable[[], bool]) -> list[bool]:
    """Whether it is given back before it is dropped, and after."""
    before = look()
    held.clear()
    gc.collect()
    return [before, look()]


def main(kind: str, *words: str) -> None:
    made, look = KINDS[kind]()
    holder = [{"held": made}]
    del made
    if "seal" in words:
        import pasture

        report = pasture.seal()
        assert report.sealed, report.reason
    print(json.dumps(drop(holder, look)))


if __name__ == "__main__":
    main(*sys.argv[1:])
