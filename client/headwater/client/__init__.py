"""How a program reaches a catalog: `connect`."""
