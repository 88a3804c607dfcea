"""A scripted installation for the API and the page, and the browser that shows the page."""
