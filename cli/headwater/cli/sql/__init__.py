"""`headwater sql`: statements from the command line, a file or a shell."""
