"""The one error of this package; its text says whose fault it is and what to do."""


class SetupError(Exception):
    """Something that the machine lacks or refuses, in words for the person at the terminal."""
