"""What stores share beside the contract: none of it knows a store, and no store has its own."""
