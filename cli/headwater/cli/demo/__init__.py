"""`headwater demo`: Headwater's main job on real data."""

from headwater.cli.demo.command import demo

__all__ = ["demo"]
