"""`python -m pasture.servers.celery ARGS`: what `pasture run celery ARGS` becomes."""

from pasture.servers.celery.command import run

if __name__ == "__main__":
    run()
