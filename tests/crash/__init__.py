"""Real processes on one store, killed at random moments; the ledger must balance."""
