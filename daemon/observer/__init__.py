"""The observer publishes layouts, racks and offsets of the cluster; it knows no group or plan.

Only where an open transaction holds back commits does it ask what groups have committed.
"""
