"""The configuration is read once and handed out in sections; it talks to no cluster."""
