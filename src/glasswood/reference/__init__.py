"""Methods as their papers write them, behind `algorithm=`: see README.md."""
