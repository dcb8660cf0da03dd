"""What a session of `benchmarks.zygote` does, for `--rehearse`: it ends."""

from zygote_session import work

work()
