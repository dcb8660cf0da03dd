"""How a policy gets into a pre-fork server: one package a server."""
