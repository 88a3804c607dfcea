"""Knowledge of a group's members: lives, duplicates, bars, and the clock of their topic."""
