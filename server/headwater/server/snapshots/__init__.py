"""Commits, snapshots, rollback."""
