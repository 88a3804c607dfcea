"""The audit trail: decisions as records, their reading, and their replay; it decides nothing."""
