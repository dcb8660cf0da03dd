"""The C half of the collector as RPython sees it, and the build options of both halves.

Each function comes with a model in Python: untranslated, and in RPython's interpreter of
low-level operations, where an address is an object and has no bits, the model runs instead.
"""
import os

from rpython.rtyper.lltypesystem import rffi
from rpython.translator.tool.cbuild import ExternalCompilationInfo

HERE = os.path.dirname(os.path.abspath(__file__))

# PASTURE_CHECK=1 in the environment of the translation: a build with all assertions, that
# verifies the heap at each step of a major collection and can be made to fail (marks.c).
CHECK_BUILD = bool(int(os.environ.get('PASTURE_CHECK', '0')))
CHECK_DEFINES = ['-DPASTURE_CHECK', '-DRPY_ASSERT', '-DRPY_LL_ASSERT']

WORDS = rffi.CArrayPtr(rffi.lltype.Unsigned)

_compilation = ExternalCompilationInfo(
    includes=['marks.h', 'markstack.h', 'pages.h', 'process.h'],
    include_dirs=[HERE],
    compile_extra=CHECK_DEFINES if CHECK_BUILD else [],
    separate_module_files=[os.path.join(HERE, name)
                           for name in ('marks.c', 'markstack.c', 'pages.c')])


def function(name, arguments, result, model):
    """A C function that neither collects nor raises nor releases the GIL."""
    return rffi.llexternal(name, arguments, result, _callable=model,
                           compilation_info=_compilation, sandboxsafe=True, _nowrapper=True,
                           random_effects_on_gcobjs=False)
