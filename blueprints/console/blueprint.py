"""The blueprint of the console. Each module of this package adds its pages to it."""

from __future__ import annotations

from app.http.api import Blueprint

blp = Blueprint("console", __package__, url_prefix="/console", description="Console")
