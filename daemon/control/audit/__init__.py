"""What the audit trail keeps of a decision: its inputs, and what became of it."""
