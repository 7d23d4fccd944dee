"""Random keys, the words that they consist of, and the bits that are made of them."""
