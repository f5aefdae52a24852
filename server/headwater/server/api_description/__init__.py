"""The API's description: examples, meanings of fields, and the OpenAPI document.

May import the application.
"""
