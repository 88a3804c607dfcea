"""Lag of the groups of many topics at once.

Each topic's update asks for lag as of some states; what is asked for is computed together, since a
call of NumPy costs as much for a hundred topics as for one. Pure functions of topics' states.
"""
