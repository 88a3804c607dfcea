"""Signs by which the pipeline proves that it lives, and how whoever watches it reads them."""
