"""The catalog server, measured over HTTP beside bare SQL and another server."""
