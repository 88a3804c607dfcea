"""Reading and writing levelwind's topics; it knows records and clients, not what is decided by them."""
