"""Entry point of `python -m levelwind.daemon.cli`."""

from levelwind.daemon.cli.main import main

main()
