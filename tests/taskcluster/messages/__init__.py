"""Messages of the face."""
