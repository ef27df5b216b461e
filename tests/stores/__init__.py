"""Parts of stores that have tests of their own."""
