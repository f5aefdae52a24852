"""Policies: recorded, listed and dropped, and not enforced."""

from __future__ import annotations

from fastapi import APIRouter

__all__ = ["router"]

router = APIRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/policies", tags=["policy"]
)
