"""The file for `spark-submit`: the pipeline as an application, with the options of its command.

`spark-submit [options of Spark's] levelwind_pipeline.py --config levelwind.toml` does what
`levelwind pipeline --config levelwind.toml` does.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Spark runs this file by its path; the modules beside it are none of their own.
    sys.path[:] = [
        path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent
    ]
    from levelwind.daemon.cli.main import main

    main(["pipeline", *sys.argv[1:]])
