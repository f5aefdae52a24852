"""`headwater cdc`: databases that are followed into the lake."""
