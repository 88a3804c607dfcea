"""Entry point of `python -m daemon.cli`."""

from daemon.cli.main import main

main()
