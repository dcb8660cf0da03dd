"""What Celery starts when a worker of `pasture run celery` is told to restart."""

from pasture.servers.celery.__main__ import run

if __name__ == "__main__":
    run()
