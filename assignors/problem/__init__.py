"""The problem and its answer: groups in columns, validity, score and moves; it knows no strategy and no wire."""
