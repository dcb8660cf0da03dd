"""What the server of tools does before it waits, and for one call."""

import conversation
from notes import main
from sessions import TOOLS

conversation.hold(TOOLS, framed=False)
main()
