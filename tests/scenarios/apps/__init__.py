"""The applications that worker processes run, one per profile."""
