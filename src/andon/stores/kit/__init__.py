"""Code that stores share beside the contract; it depends on no store."""
