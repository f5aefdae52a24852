"""The HTTP routes of references and deletions."""
