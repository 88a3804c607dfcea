"""What the tests share: oracles, random problems, record builders and processes."""
