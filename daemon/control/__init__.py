"""The control decides: pure functions of records and time. It knows no client, no log and no clock."""
