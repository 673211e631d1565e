"""What becomes of the tree that a search has found: pruned, its leaves refitted, a Forest, with intervals."""
