"""What only the NATS store can get wrong."""
