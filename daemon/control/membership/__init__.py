"""Membership of a group: which lives are members, by what they announce and by their silence."""
