"""Facts and differences as pages for people: in words, in an order of interest, in 80 columns."""
