"""Tables on disk and in pipes, batch by batch, by pyarrow."""
