"""Commands of levelwind, run in this process: one of their own would import for a second."""

from collections.abc import Iterable

from click.testing import CliRunner

from levelwind.daemon.cli.main import main


def printed_by(*arguments: str, bootstrap: str, settings: Iterable[str] = ()) -> str:
    """Run a command to its end; return its standard output.

    Raises:
        AssertionError: the command failed; the text is what it wrote.
    """
    options = [word for setting in settings for word in ("--set", setting)]
    done = CliRunner().invoke(main, [*arguments, "--bootstrap", bootstrap, *options])
    assert done.exit_code == 0, done.output
    return done.stdout
