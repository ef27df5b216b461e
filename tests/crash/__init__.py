"""Real processes on one file, killed at random moments; the ledger must balance."""
