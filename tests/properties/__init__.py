"""Properties: what must hold for every course of events, looked for by Hypothesis."""
