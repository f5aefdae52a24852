"""``CALL sys.name(…)``: the procedures, one table of them in `procedures`.

`procedure` is what one is made of, `arguments` reads a call; the others are the procedures by what
they are about.
"""
