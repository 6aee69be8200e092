"""Gradients out of snippets: a snippet is run on terms, and reverse mode walks them backwards.

``ctypes`` says what C converts to what, ``terms`` holds shared terms, ``simplify`` keeps them
small. ``read`` runs a tree of C on them: its statements, over ``expressions``, ``places``,
``calls`` and ``arithmetic``. ``derivatives`` is the table of rules, ``reverse`` applies it,
``divide`` spares divisions, and ``write`` prints terms as a snippet again.
"""
