"""Records by declaration: one class says a record's fields, and its JSON follows from that."""
