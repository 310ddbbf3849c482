"""How results look: sentences, tables, charts, Markdown."""
