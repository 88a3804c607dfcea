"""The one error of this package: the start ends with a word on whose fault it is and what to do."""


class SetupError(Exception):
    """What the machine lacks or refuses, in words for the person who started us."""
