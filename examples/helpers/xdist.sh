#!/bin/sh
# Workers of pytest-xdist out of an image: `xdist.sh 4 tests/`.
# XDIST_PRELOAD names what your tests import; modules under test stay out of it, so that they are read
# each time. --allow folder: xdist keeps a copy of the search path, which it gives to workers of its own.
set -eu
workers=$1
shift
image=${XDIST_IMAGE:-$PWD/.xdist.img}
if ! pasture image show --check "$image" >/dev/null 2>&1; then
    pasture image build -o "$image" --options=-u --allow folder --preload "${XDIST_PRELOAD:-pytest,xdist.remote}"
fi
PASTURE_IMAGE=$image
export PASTURE_IMAGE
exec pytest --dist load --tx "$workers*popen//python=$(command -v pasture-python)" "$@"
