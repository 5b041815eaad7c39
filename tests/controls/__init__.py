"""What runs the negative controls: a chapter's cells, forked children, and the pass over both."""
