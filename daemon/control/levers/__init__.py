"""What operators set and order beside the settings, and what the audit trail says of decisions."""
