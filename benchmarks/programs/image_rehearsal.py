"""What a session of `benchmarks.image` does, for `--rehearse`: it ends."""

from image_session import work

work()
