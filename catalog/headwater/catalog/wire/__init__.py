"""The JSON of the REST API, as models that the server and `RestCatalog` share.

May import model.
"""
