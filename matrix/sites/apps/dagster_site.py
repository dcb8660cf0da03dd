"""Dagster's web server as an ASGI application: each worker opens the instance at its start."""

import os
from contextlib import ExitStack

from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import GrpcServerTarget
from dagster_webserver.app import create_app_from_workspace_process_context

opened = ExitStack()
served = None


async def application(scope, receive, send):
    """The web server, once the lifespan has opened it."""
    global served
    if scope["type"] != "lifespan":
        await served(scope, receive, send)
        return
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                served = open_server()
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": repr(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            opened.close()
            await send({"type": "lifespan.shutdown.complete"})
            return


def open_server():
    """The web server over the code server that runs next to it."""
    instance = opened.enter_context(DagsterInstance.get())
    target = GrpcServerTarget(
        host="localhost", port=None, socket=os.environ["CODE_SOCKET"], location_name="jobs"
    )
    context = WorkspaceProcessContext(instance, workspace_load_target=target)
    return create_app_from_workspace_process_context(opened.enter_context(context))
