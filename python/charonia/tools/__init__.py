"""Tools beside the server: what the subcommands of `charonia` do."""
