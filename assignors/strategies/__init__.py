"""One strategy a file, each a pure function from a group to an assignment; it knows no wire and no client."""
