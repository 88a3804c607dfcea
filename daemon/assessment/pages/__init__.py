"""Pages of an assessment, in text and HTML with the same words; they ask nothing of any broker."""
