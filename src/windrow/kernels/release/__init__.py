"""Releasing residents that cannot matter any more: rules, evidence for them, and when they are applied."""
