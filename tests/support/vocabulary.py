"""A plugin with one endpoint that uses every kind of field that no endpoint of the service uses."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.responses import json_response
from schemas.base import CodeSchema, load
from schemas.fields import Array, Bitfield, Collection, Integer, Number, PositiveNumber, String

blp = Blueprint("vocabulary", __name__, url_prefix="/v1/vocabulary", description="Every kind of field")


class PartSchema(CodeSchema):
    """One element of a collection."""

    name = String(required=True, least=1)
    size = Integer()


class VocabularySchema(CodeSchema):
    """One attribute for each kind of field."""

    word = String(least=3, most=5)
    share = Number(least=0, most=100)
    weight = Number()
    price = PositiveNumber()
    flags = Bitfield(bits=0b101)
    parts = Collection(PartSchema, most=3)
    words = Array(String(least=1), most=2, least_one=False)


@blp.route("")
class Vocabulary(MethodView):
    """Echoes the body."""

    @blp.scope("report.view")
    @blp.describe(returns=VocabularySchema, body=VocabularySchema, errors=(422,))
    def post(self) -> Response:
        """Returns the body as the schema has loaded it."""
        return json_response(load(VocabularySchema(), json_object()))
