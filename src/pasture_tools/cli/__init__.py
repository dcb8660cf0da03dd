"""The command line: arguments in, exit codes out. One module a command."""
