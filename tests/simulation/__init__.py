"""The fleet under a seeded simulator."""
