"""The columns, options and budgets that `optimal` works on; it knows no bound and no search."""
