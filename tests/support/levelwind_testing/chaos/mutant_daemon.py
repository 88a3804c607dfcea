"""A daemon that leaves a rule out: `python -m levelwind_testing.chaos.mutant_daemon NAME ...`.

Behind the mutant's name come the arguments of `levelwind`.
"""

import sys

from levelwind.daemon.cli.main import main
from levelwind_testing.chaos.chaos_mutants import mutate

if __name__ == "__main__":
    _, name, *arguments = sys.argv
    mutate(name)
    sys.argv = ["levelwind", *arguments]
    main()
