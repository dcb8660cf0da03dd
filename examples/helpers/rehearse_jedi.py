"""What a language server does until it has completed a name."""

import conversation
from jedi_language_server.cli import cli
from sessions import EDITOR, LEAVE

conversation.hold(EDITOR + LEAVE, framed=True)
cli()
