#!/bin/sh
# Workers of pytest-xdist out of a zygote: `examples/zygote/xdist.sh 4 tests/`.
# execnet starts its workers with -u, so the zygote is for that option. ZYGOTE_PRELOAD names what
# your tests import; modules under test stay out of it, so that they are read anew each time.
set -eu
workers=$1
shift
pasture zygote start --name xdist --options=-u --preload "${ZYGOTE_PRELOAD:-pytest,xdist.remote}"
exec pytest --dist load --tx "$workers*popen//python=$(command -v pasture-python)" "$@"
