"""Wire forms: the records that levelwind publishes and the members announce."""
