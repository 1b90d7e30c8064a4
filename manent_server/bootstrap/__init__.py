"""The composition root: every object is built here, once, and handed on."""
