"""The control decides by pure functions of records and time; it knows no client, log or clock."""
