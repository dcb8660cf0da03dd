"""What a hook that formats files does with one."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from black import patched_main

with TemporaryDirectory() as folder:
    file = Path(folder, "one.py")
    file.write_text("class A:\n  def f(self, *a, **b): return {'a': [1, 2]}\n")
    sys.argv[1:] = ["--quiet", str(file)]
    patched_main()
