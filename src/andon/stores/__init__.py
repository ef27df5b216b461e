"""The stores: each fulfils the contract and is found by its URL."""
