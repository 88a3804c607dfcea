"""Records of what operators ask for, and of the audit trail."""
