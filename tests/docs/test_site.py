"""The site of the documents is built, and each link in it leads somewhere."""

import subprocess
import sys

import pytest

from levelwind_testing.source_tree import ROOT


def built(documents, site):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", documents, site]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_has_a_page_for_each_document(tmp_path):
    done = built(ROOT / "docs", tmp_path)
    assert done.returncode == 0, done.stderr
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert documents <= {page.stem for page in tmp_path.glob("*.html")}
    assert "Try it" in (tmp_path / "index.html").read_text()


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_an_error(tmp_path):
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "conf.py").write_text('extensions = ["myst_parser"]\n')
    (documents / "index.md").write_text("# Page\n\n[gone](gone.md)\n")
    assert "gone" in built(documents, tmp_path / "site").stderr
