"""What every store must do, whatever it is made of. How to run it on another: see `conftest`."""
