"""Computes when a schedule fires: pure functions of its specification (`model.recurrence`), its
name and the time that is passed in. docs/recurrence.md has the rules in plain words."""
