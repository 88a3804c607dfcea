"""The files of the checkpoint, on this machine or in any of Hadoop's file systems."""
