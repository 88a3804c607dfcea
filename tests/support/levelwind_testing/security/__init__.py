"""Brokers with TLS, SASL and an authorizer, their certificates, and their users."""
