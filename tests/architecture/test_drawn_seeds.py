"""Seeds of the tests: one that stays, unless the environment has a number or a fresh one drawn."""

import re

from levelwind_testing.drawn_seeds import FIXED, FRESH, VARIABLE, drawn_seed
from levelwind_testing.source_tree import ROOT

SOURCES = r"SystemRandom|import secrets|from secrets|urandom|uuid4|default_rng\(\)|Random\(\)"
CHANCE = re.compile(rf"\b({SOURCES})")
MAY_DRAW = {
    "support/levelwind_testing/drawn_seeds.py": "a fresh seed is asked for",
    "support/levelwind_testing/chaos/__main__.py": "a run by hand, which prints its seed",
    "support/levelwind_testing/pipeline/mounted_files.py": "names that no two tests share",
    "support/levelwind_testing/processes/member_host.py": "a member's incarnation is unique",
    "support/levelwind_testing/security/secure_brokers.py": "passwords",
    "end_to_end/spark_cluster/test_file_systems.py": "names on servers that outlive a test",
}
"""By file: why it draws something that no seed decides."""


def test_a_seed_stays_until_a_number_or_a_fresh_one_is_asked_for(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert (drawn_seed(), drawn_seed(3)) == (FIXED, 3)
    monkeypatch.setenv(VARIABLE, "41")
    assert drawn_seed(3) == 41
    monkeypatch.setenv(VARIABLE, FRESH)
    capsys.readouterr()
    fresh = drawn_seed(3), drawn_seed(3)
    assert len({*fresh, 3, 41}) == 4
    assert capsys.readouterr().out == "".join(f"{VARIABLE}={seed}\n" for seed in fresh)


def test_no_other_test_draws_what_no_seed_decides():
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {
        str(path.relative_to(ROOT / "tests"))
        for path in files
        if "benchmarks" not in path.parts and CHANCE.search(path.read_text())
    }
    assert found - {"architecture/test_drawn_seeds.py"} == MAY_DRAW.keys()
