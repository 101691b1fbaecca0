"""A small language model that generates token by token, in every form in which a server can stream it."""
