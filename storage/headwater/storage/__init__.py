"""A table's bytes: types, schema, snapshots, manifests, files, scan, write, commit."""
