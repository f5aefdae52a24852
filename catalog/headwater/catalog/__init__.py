"""The catalog: its contract, the table handle, and `SqlCatalog`."""
