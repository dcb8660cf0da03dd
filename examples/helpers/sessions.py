"""What clients say to the servers of this folder: messages of JSON-RPC."""

TOOLS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "rehearsal", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {"id": 3, "method": "tools/call", "params": {"name": "add", "arguments": {"text": "a"}}},
)
"""To the server of tools; it ends when its input does."""

_FILE = {"uri": "file:///rehearsal.py"}
_TEXT = {"languageId": "python", "version": 1, "text": "import json\njson.d"}

EDITOR = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    },
    {"method": "initialized", "params": {}},
    {"method": "textDocument/didOpen", "params": {"textDocument": {**_FILE, **_TEXT}}},
    {
        "id": 2,
        "method": "textDocument/completion",
        "params": {"textDocument": _FILE, "position": {"line": 1, "character": 6}},
    },
)
"""To the language server: it completes a name."""

LEAVE = ({"id": 3, "method": "shutdown"}, {"method": "exit"})
"""To end it."""
