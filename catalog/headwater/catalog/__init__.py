"""What a table is and where it lives: the catalog's contract, the table handle, `SqlCatalog`."""
