"""The contract between the engine and the stores: requests, outcomes, interfaces."""
