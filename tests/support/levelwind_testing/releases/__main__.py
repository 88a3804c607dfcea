"""`python -m levelwind_testing.releases [COMMIT]`: the corpus of a release, from the code at hand.

It begins with records and settings of the release before. Refused where the version has a corpus,
and where the packages are not those of the commit, which is HEAD by default.
"""

import shutil
import subprocess
import sys

from levelwind.assignors.protocol.records import schemas
from levelwind_testing.releases import pipeline_state
from levelwind_testing.releases.drawn_records import RECORDS, completed
from levelwind_testing.releases.public_interface import NEEDS, OFFERS, collected
from levelwind_testing.releases.release_corpus import (
    RELEASES,
    ReleaseCorpus,
    corpora,
    present_version,
)
from levelwind_testing.releases.sample_settings import unnamed
from levelwind_testing.source_tree import PACKAGES, ROOT


def main(commit: str = "HEAD") -> None:
    """Write the corpus of the version that pyproject.toml names."""
    corpus = ReleaseCorpus(RELEASES / present_version())
    shown = corpus.directory.relative_to(ROOT)
    if corpus.recorded.exists():
        sys.exit(f"corpus: {shown} is there, and a corpus never changes")
    named = _commit_of_the_packages(commit)
    _begin(corpus)
    _require_every_setting(corpus)
    kinds = sorted({kind.KIND for _, kind in RECORDS})
    corpus.write(
        [*completed(corpus.records)],
        {kind: schemas.load(kind) for kind in kinds},
        pipeline_state.recorded(),
        (named, collected(OFFERS), collected(NEEDS)),
    )
    print(f"corpus: {shown}, of {named}")


def _commit_of_the_packages(commit: str) -> str:
    found = _git("rev-parse", "--verify", f"{commit}^{{commit}}")
    if found.returncode:
        sys.exit(f"corpus: {found.stderr.strip()}")
    named = found.stdout.strip()
    if _git("diff", "--quiet", named, "--", *PACKAGES, "pyproject.toml").returncode:
        sys.exit(f"corpus: the packages are not those of {named}: commit the release first")
    return named


def _begin(corpus: ReleaseCorpus) -> None:
    corpus.directory.mkdir(exist_ok=True)
    for name in (corpus.settings_file.name, corpus.records_file.name):
        if not (corpus.directory / name).exists():
            shutil.copy(corpora()[-1].directory / name, corpus.directory)


def _require_every_setting(corpus: ReleaseCorpus) -> None:
    file = corpus.settings_file
    if missing := unnamed(file.read_text()):
        sys.exit(
            f"corpus: give each of these a value in {file.relative_to(ROOT)}, another than its"
            f" default, and run it again: {', '.join(missing)}"
        )


def _git(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
