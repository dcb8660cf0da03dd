"""An agent server of LiveKit that keeps idle job processes, and registers nowhere.

    python livekit_agent.py PROCESSES [MODULE ...]      modules that the forkserver preloads

There is no LiveKit behind it, so no job arrives: what is seen are the processes that wait for one.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from livekit.agents import AgentServer, JobContext


async def serve(processes: int, modules: list[str]) -> None:
    server = AgentServer(
        num_idle_processes=processes,
        preload_modules=modules,
        initialize_process_timeout=300.0,
        host="127.0.0.1",
        port=0,
        ws_url="ws://127.0.0.1:9",
        api_key="none",
        api_secret="none",
    )
    server.rtc_session(entrypoint)
    await server.run(devmode=False, unregistered=True)


async def entrypoint(context: JobContext) -> None:
    await context.connect()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2:]))
