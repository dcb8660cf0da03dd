"""Small descriptions of images, written by the project's own code."""

from __future__ import annotations

import os
from random import Random

from pasture.proc.maps import Mapping
from pasture_image.build.beside import Name
from pasture_image.build.frozen import FACTS, LAYOUT, Opened
from pasture_image.build.manifest import (
    File,
    Folder,
    MadeOf,
    Needs,
    write_manifest,
)
from pasture_image.build.regions import (
    ANONYMOUS,
    MAP_ANONYMOUS,
    MAP_PRIVATE,
    OWN,
    Image,
    Region,
    Stack,
)

OS_PAGE = 4096
AT = 0x400000
STACK_END = 0x7FFC00000000


def manifest(random: Random) -> bytes:
    """One that is right."""
    return write_manifest(
        _image(random),
        dict.fromkeys(FACTS, 0) | dict.fromkeys(LAYOUT, AT)
        | {"entry": AT, "stack_pointer": STACK_END - OS_PAGE}
        | {"thread_pointer": AT + OS_PAGE, "tid_address": AT + OS_PAGE + 16},
        bytes(16 * random.randrange(1, 20)),
        Needs("/bin/python", ("-u",) * random.randrange(2), {"HOME": "/", "LANG": None},
              names=[Name("json", "/usr/lib", False)] * random.randrange(2)),
        [Opened(900, "/bin/sh", os.O_RDONLY, 0, False)] * random.randrange(3),
        64 * OS_PAGE,
        _made_of(random),
    )  # fmt: skip


def _made_of(random: Random) -> MadeOf:
    known = File("/bin/sh", 1 << 20, *random.choice(((0, 0), (8, 9))), 0o755, 7)
    return MadeOf(
        (4096,) * random.randrange(12),
        {"/bin/sh": known},
        (File("/etc/passwd", 1, 2, 3, 0o644, 4), File("/nowhere", 0, 0, 0, 0, None)),
        (
            Folder("/usr/lib", 1, 2, ("json", "os/"), ("json.py", "os/")),
            Folder("/etc", 1, 2, missing=("/etc/nowhere",), listed=5),
        )
        * random.randrange(3),
        {(3, 7): 5, (10, "/etc/passwd"): 4, (12, "/dev/null"): 0, (13, "/bin/sh"): 7}
        if random.randrange(2)
        else {},
    )


def _image(random: Random) -> Image:
    anonymous = MAP_PRIVATE | MAP_ANONYMOUS
    regions = [Region(AT, OS_PAGE, 0, 0, 5, MAP_PRIVATE)]
    regions += [Region(AT + OS_PAGE, OS_PAGE, 0, ANONYMOUS, 3, anonymous)]
    for number in range(random.randrange(20)):
        start, length = AT + 0x10000 * (number + 1), OS_PAGE * random.randrange(1, 9)
        source = random.choice((0, 1, ANONYMOUS))
        flags = anonymous if source == ANONYMOUS else MAP_PRIVATE
        regions.append(Region(start, length, 0, source, 3, flags, random.choice((0, 14, 102))))
    kernels = tuple(
        Mapping(at, at + OS_PAGE, "r-xp", "[vdso]") for at in (0x7FFD00000000, 0x7FFD00010000)
    )
    stack = Stack(STACK_END, 8 << 20, 2 * OS_PAGE, 0, 0)
    return Image(tuple(regions), stack, (OWN, "/bin/sh"), kernels)
