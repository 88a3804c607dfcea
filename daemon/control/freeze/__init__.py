"""Freeze: when plans move nothing that works, and why; pure, it knows no clock and no I/O."""
