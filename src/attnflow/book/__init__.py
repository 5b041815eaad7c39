"""The machinery around the book: the only part of attnflow that knows notebooks."""
