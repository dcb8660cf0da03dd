"""Translates an RPython target, given by path, with one of three collectors.

    translate.py ours|stock|published OUTPUT TARGET [option of rpython ...]
        [-- option of the target ...]

Runs on Python 2 with rpython on the path (pypy/root run). Each run has a cache of its own,
because translate.py of RPython removes the one that all share.
"""
import os
import sys
import tempfile


def main(collector, output, target, options):
    ends = options.index('--') if '--' in options else len(options)
    options, of_target = options[:ends], options[ends + 1:]
    from rpython.config import translationoption
    translationoption.CACHE_DIR = tempfile.mkdtemp(prefix='cache.', dir=os.getcwd())
    from collector import register, spelling
    try:
        gc = register.register(collector)
    except spelling.UnknownSpelling as error:
        sys.stderr.write("error: %s\n" % error)
        return 1
    sys.argv = (['rpython', '--batch', '--gc=' + gc, '--output=' + output] + options + [target] +
                of_target)
    from rpython.translator.goal import translate
    translate.main()
    return 0


if __name__ == '__main__':
    if len(sys.argv) < 4 or sys.argv[1] not in ('ours', 'stock', 'published'):
        sys.stderr.write(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
