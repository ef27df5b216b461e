"""Pages of HTML, written in typed Python from view models."""
