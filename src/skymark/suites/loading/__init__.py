"""The loading suite: data-loading libraries on image, text, table, I/O and production work."""
