"""What Huey starts when a consumer of `pasture run huey_consumer` is told to restart."""

from pasture.servers.huey.__main__ import run

if __name__ == "__main__":
    run()
