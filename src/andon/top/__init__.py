"""`andon top`: the board on a terminal, drawn by Textual from the same view models."""
