"""Seeds of the tests: one that stays, unless the environment has a number or a fresh one drawn."""

from levelwind_testing.drawn_seeds import FIXED, FRESH, VARIABLE, drawn_seed


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
