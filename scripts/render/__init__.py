"""The embedded renderer: a Quarto book (``_quarto.yml``, Markdown, executed notebooks) to a static site.

Pandoc parses the Markdown and writes the HTML; this package adds Quarto's book semantics between the two, on
Pandoc's JSON syntax tree. It executes nothing and supports a fixed subset: whatever lies outside it is an
error that names file, cell and line. The way of a page: ``config`` -> ``source`` (one Markdown text) ->
``pandoc`` (tree) -> ``transform`` (numbers, boxes, figures) -> ``crossref`` (references) -> ``pandoc`` (HTML)
-> ``page`` (template) -> ``site`` (checks and files).
"""
