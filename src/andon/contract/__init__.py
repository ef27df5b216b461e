"""What the engine asks of a store and what a store answers: under both of them."""
