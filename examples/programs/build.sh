#!/bin/sh
# Makes the image that all programs of the site start out of. Run it again for each release, then
# restart the programs one at a time: those that run go on with the old image until they end.
set -eu
cd "$(dirname "$0")"
set -a
. ./.env
set +a

# Settings read these while they are loaded, so the image holds them: it is for its owner alone, as
# .env is. A program with other values of them is run by python.
variables=$(sed -n 's/^\([A-Z][A-Z_]*\)=.*/--env \1/p' .env | grep -v PASTURE)

# shellcheck disable=SC2086
pasture image build -o "$(command -v pasture-python).img" $variables --rehearse rehearsal.py --app mysite.wsgi:application \
    --warm / --preload mysite.wsgi,mysite.celery,gunicorn.app.wsgiapp,gunicorn.workers.sync \
    --preload celery.__main__,celery.bin.celery,celery.apps.worker,celery.apps.beat \
    --preload celery.concurrency.prefork,kombu.transport.redis,django.core.management
