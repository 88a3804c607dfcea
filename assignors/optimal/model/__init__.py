"""The columns, options and work budget of `optimal`; they know no bound and no search."""
