"""The command line. One module per group of commands, each imported only when it is used."""
