"""The problem and its answer: groups in columns, validity, score, moves; no strategy, no wire."""
