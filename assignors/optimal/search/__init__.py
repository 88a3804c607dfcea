"""Searches that construct and improve a working plan.

They know the model, but neither the target nor the certificate.
"""
