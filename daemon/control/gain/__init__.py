"""Gain weighs what a plan brings against what its hand-over costs, and limits how many follow."""
