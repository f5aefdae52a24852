"""What a table's bytes are: types, schema, snapshots, manifests, files, scan, write, commit."""
