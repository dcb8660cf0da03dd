"""A server of tools over standard input and output, as agents start many of."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")
kept: list[str] = []


@server.tool()
def add(text: str) -> int:
    """Keep a note; returns how many there are."""
    kept.append(text)
    return len(kept)


@server.tool()
def find(word: str) -> list[str]:
    """Notes with a word."""
    return [text for text in kept if word in text]


def main() -> None:
    """Serve until standard input ends."""
    server.run()
