"""Real workers on real servers that stop, die, fall silent and lose replies."""
