"""Draws HTML pages from view models, in typed Python."""
